//! Capacity that a CSI driver offers.

use copepod_api::names;

use crate::kinds::at::At;
use crate::kinds::checks::warn;
use crate::kinds::checks::{amounts, labels};
use crate::kinds::defaults::{Object, Rule::Run};
use crate::kinds::kind::Kind;
use crate::kinds::pod::resources::quantity;

/// CSI storage capacities.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Run(canonical)],
    unconditional_update: false,
    validate,
    validate_update: Some(|new, old| {
        validate(new);
        for field in ["nodeTopology", "storageClassName"] {
            new.get(field).immutable(&old.get(field));
        }
    }),
    warnings: |new, _| {
        warn::about(new, copepod_api::FieldPath::root(), |capacity, warnings| {
            let topology = capacity.get("nodeTopology");
            warn::expressions(&topology, warnings);
            for (label, _) in topology.get("matchLabels").entries() {
                if let Some(text) = warn::old_label(label) {
                    warnings.push(format!("{}: {text}", topology.get("matchLabels").get(label).path()));
                }
            }
        })
    },
    ..Kind::PLAIN
};

fn validate(capacity: &At<'_>) {
    labels::selector(&capacity.get("nodeTopology"));
    let class = capacity.get("storageClassName");
    class.invalid_all(names::dns1123_subdomain(class.str()));
    for field in ["capacity", "maximumVolumeSize"] {
        amounts::not_negative(&capacity.get(field));
    }
}

/// Amounts in canonical form.
fn canonical(object: &mut Object) {
    for field in ["capacity", "maximumVolumeSize"] {
        if let Some(amount) = object.get(field).and_then(quantity) {
            object.insert(field.to_owned(), amount.to_string().into());
        }
    }
}
