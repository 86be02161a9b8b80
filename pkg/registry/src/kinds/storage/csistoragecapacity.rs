//! Capacity that a CSI driver offers.

use copepod_api::names;

use crate::kinds::at::At;
use crate::kinds::checks::{amounts, labels};
use crate::kinds::kind::Kind;

/// CSI storage capacities.
pub(crate) static KIND: Kind = Kind {
    unconditional_update: false,
    validate,
    validate_update: Some(|new, old| {
        validate(new);
        for field in ["nodeTopology", "storageClassName"] {
            new.get(field).immutable(&old.get(field));
        }
    }),
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
