//! Limit ranges.

use serde_json::Value;

use crate::kinds::defaults::{
    Object,
    Rule::{Amounts, Each, In, Run},
    fill, map_mut, text,
};
use crate::kinds::kind::Kind;

/// Limit ranges.
pub(crate) static KIND: Kind = Kind {
    create_on_update: true,
    defaults: &[In(
        &["spec"],
        &[Each(
            &["limits"],
            &[Amounts(&["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]), Run(container_defaults)],
        )],
    )],
    ..Kind::PLAIN
};

/// For containers, a maximum is a default limit, and a default limit or a minimum a default request.
fn container_defaults(item: &mut Object) {
    if text(item, "type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let given = item.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
        if !given.is_empty() {
            let target = map_mut(item, to);
            given.into_iter().for_each(|(name, amount)| fill(target, &name, amount));
        }
    }
}
