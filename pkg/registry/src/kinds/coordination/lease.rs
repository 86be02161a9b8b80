//! Leases.

use serde_json::Value;

use crate::kinds::kind::Kind;

/// Leases.
pub(crate) static KIND: Kind = Kind {
    create_on_update: true,
    unconditional_update: false,
    validate: |lease| {
        let spec = lease.get("spec");
        let (duration, transitions) = (spec.get("leaseDurationSeconds"), spec.get("leaseTransitions"));
        if duration.int().is_some_and(|n| n <= 0) {
            duration.invalid("must be greater than 0");
        }
        transitions.not_negative();
    },
    prepare_create: |_, new| drop_coordinated(new),
    prepare_update: |_, new, _| drop_coordinated(new),
    ..Kind::PLAIN
};

/// Coordinated leader election is off, so its fields are not kept.
fn drop_coordinated(lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}
