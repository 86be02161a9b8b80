//! Service accounts.

use serde_json::{Value, json};

use crate::kinds::kind::Kind;

/// Service accounts.
pub(crate) static KIND: Kind = Kind {
    prepare_create: |_, new| keep_names(new),
    prepare_update: |_, new, _| keep_names(new),
    warnings: |new, old| {
        let has = |account: &Value| {
            let annotations = account.pointer("/metadata/annotations");
            annotations.is_some_and(|a| a.get("kubernetes.io/enforce-mountable-secrets").is_some())
        };
        if !has(new) || old.is_some_and(has) {
            return Vec::new();
        }
        vec!["metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets".to_owned()]
    },
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
