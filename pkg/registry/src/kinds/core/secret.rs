//! Secrets.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::hooks::HookContext;
use crate::kinds::defaults::{
    Lit::S,
    Object,
    Rule::{Run, Zero},
    fill, map_mut,
};
use crate::kinds::kind::Kind;

/// Secrets.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Run(merge_string_data), Zero("type", S("Opaque"))],
    prepare_update,
    ..Kind::PLAIN
};

/// `stringData` is for writing only: each entry replaces the one in `data`.
fn merge_string_data(secret: &mut Object) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    if plain.is_empty() {
        return;
    }
    let data = map_mut(secret, "data");
    for (key, value) in plain {
        if let Value::String(text) = value {
            data.insert(key, STANDARD.encode(text).into());
        }
    }
}

fn prepare_update(_cx: &HookContext<'_>, new: &mut Value, old: &Value) {
    if let (Some(new), Some(kind)) = (new.as_object_mut(), old.get("type")) {
        fill(new, "type", kind.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn string_data_moves_into_data() {
        let mut secret = json!({"stringData": {"a": "b"}, "data": {"a": "eHg=", "c": "eQ=="}});
        crate::kinds::defaults::apply(KIND.defaults, secret.as_object_mut().unwrap());
        assert_eq!(secret, json!({"data": {"a": "Yg==", "c": "eQ=="}, "type": "Opaque"}));
    }
}
