//! Replication controllers.

use serde_json::Value;

use crate::kinds::defaults::{
    Lit::I,
    Object,
    Rule::{In, Nil, Run},
    is_zero, map_mut,
};
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::TEMPLATE;

/// Replication controllers.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Run(labels), In(&["spec"], &[Nil("replicas", I(1))]), In(&["spec"], TEMPLATE)],
    ..Kind::WITH_STATUS
};

/// The template's labels stand in for a missing selector and missing labels.
fn labels(controller: &mut Object) {
    let labels = controller.get("spec").and_then(|s| s.pointer("/template/metadata/labels"));
    let Some(labels) = labels.filter(|l| !is_zero(l)).cloned() else { return };
    for (holder, field) in [("spec", "selector"), ("metadata", "labels")] {
        let map = map_mut(controller, holder);
        if map.get(field).is_none_or(|v: &Value| is_zero(v)) {
            map.insert(field.to_owned(), labels.clone());
        }
    }
}
