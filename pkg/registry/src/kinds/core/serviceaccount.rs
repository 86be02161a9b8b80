//! Service accounts.

use serde_json::{Value, json};

use crate::kinds::kind::Kind;

/// Service accounts.
pub(crate) static KIND: Kind = Kind {
    prepare_create: |_, new| keep_names(new),
    prepare_update: |_, new, _| keep_names(new),
    ..Kind::PLAIN
};

/// References to secrets are names and nothing else.
fn keep_names(account: &mut Value) {
    for secret in account.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        *secret = match secret.get("name") {
            Some(name) => json!({"name": name}),
            None => json!({}),
        };
    }
}
