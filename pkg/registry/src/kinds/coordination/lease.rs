//! Leases.

use serde_json::Value;

use crate::kinds::kind::Kind;

/// Leases.
pub(crate) static KIND: Kind = Kind {
    create_on_update: true,
    unconditional_update: false,
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
