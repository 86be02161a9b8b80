//! What CSI drivers a node has.

use std::collections::HashSet;

use copepod_api::{FieldError, names};

use crate::kinds::at::At;
use crate::kinds::kind::Kind;
use crate::kinds::pod::volumes::csi_driver;

/// CSI nodes.
pub(crate) static KIND: Kind = Kind {
    unconditional_update: false,
    validate,
    validate_update: Some(|new, old| {
        validate(new);
        let drivers = new.at("spec.drivers");
        let fixed = ["name", "nodeID", "topologyKeys"];
        for was in old.at("spec.drivers").items() {
            let same_name = drivers.items().find(|now| now.is("name", was.get("name").str()));
            let changed = |now: &At<'_>| fixed.iter().any(|f| now.get(f).value() != was.get(f).value());
            if let Some(now) = same_name.filter(|now| changed(now)) {
                drivers.invalid_as(now.value().cloned().unwrap_or_default(), "field is immutable");
            }
        }
    }),
    ..Kind::PLAIN
};

fn validate(node: &At<'_>) {
    let mut seen = HashSet::new();
    for at in node.at("spec.drivers").items() {
        let (name, id) = (at.get("name"), at.get("nodeID"));
        csi_driver(&name);
        id.need();
        if id.str().len() > 256 {
            id.invalid("must be 256 characters or less");
        }
        at.at("allocatable.count").not_negative();
        if !seen.insert(name.str()) {
            name.duplicate();
        }
        let mut keys = HashSet::new();
        for key in at.get("topologyKeys").strings() {
            if key.is_empty() {
                at.required("");
            }
            if !keys.insert(key) {
                at.push(FieldError::duplicate(at.path(), key));
            }
            names::qualified_name(key).into_iter().for_each(|error| at.invalid_as(key, error));
        }
    }
}
