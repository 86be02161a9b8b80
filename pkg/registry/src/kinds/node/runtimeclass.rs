//! Runtime classes.

use std::collections::HashSet;

use copepod_api::{FieldError, names};

use crate::kinds::at::At;
use crate::kinds::checks::warn;
use crate::kinds::checks::{amounts, labels, topology};
use crate::kinds::defaults::Rule::{Amounts, In};
use crate::kinds::kind::Kind;

/// Runtime classes.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["overhead"], &[Amounts(&["podFixed"])])],
    unconditional_update: false,
    validate,
    validate_update: Some(|new, old| new.get("handler").fixed(&old.get("handler"))),
    warnings: |new, _| {
        warn::about(new, copepod_api::FieldPath::root(), |class, warnings| {
            for (label, _) in class.at("scheduling.nodeSelector").entries() {
                if let Some(text) = warn::old_label(label) {
                    warnings.push(format!("scheduling.nodeSelector: {text}"));
                }
            }
        })
    },
    ..Kind::PLAIN
};

fn validate(class: &At<'_>) {
    let handler = class.get("handler");
    if handler.need() {
        handler.text(names::dns1123_label);
    }
    let (overhead, fixed) = (class.get("overhead"), class.at("overhead.podFixed"));
    for (name, place) in fixed.entries() {
        let at = overhead.get("limits").key(name).holding(&place);
        amounts::container_name(&at, name);
        amounts::value(&at, name);
    }
    labels::labels(&class.at("scheduling.nodeSelector"));
    let tolerations = class.at("scheduling.tolerations");
    topology::tolerations(&tolerations);
    let mut seen = HashSet::new();
    for at in tolerations.items() {
        let key = ["key", "operator", "value", "effect"].map(|field| at.get(field).str());
        if !seen.insert(key) {
            at.push(FieldError::duplicate(at.path(), at.value().cloned().unwrap_or_default()));
        }
    }
}
