//! Secrets.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::configmap::{MAX_SIZE, decoded_len, fixed_when_immutable};
use crate::hooks::HookContext;
use crate::kinds::at::At;
use crate::kinds::checks::text as texts;
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
    validate,
    validate_update: Some(|new, old| {
        new.get("type").immutable(&old.get("type"));
        fixed_when_immutable(new, old, &["data"]);
        validate(new);
    }),
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

fn validate(secret: &At<'_>) {
    let data = secret.get("data");
    let mut size = 0;
    for (key, place) in data.entries() {
        texts::config_key(key).into_iter().for_each(|error| place.invalid_as(key, error));
        size += decoded_len(place.str());
    }
    if size > MAX_SIZE {
        data.push(copepod_api::FieldError::too_long(data.path(), MAX_SIZE));
    }
    let need = |keys: &[&str]| {
        for key in keys.iter().filter(|key| !data.key(key).present()) {
            data.key(key).required("");
        }
    };
    match secret.get("type").str() {
        "kubernetes.io/service-account-token" => {
            secret.at("metadata.annotations").key("kubernetes.io/service-account.name").need();
        }
        "kubernetes.io/dockercfg" => json_entry(&data.key(".dockercfg")),
        "kubernetes.io/dockerconfigjson" => json_entry(&data.key(".dockerconfigjson")),
        "kubernetes.io/basic-auth" if !data.key("username").present() && !data.key("password").present() => {
            need(&["username", "password"]);
        }
        "kubernetes.io/ssh-auth" => {
            data.key("ssh-privatekey").need();
        }
        "kubernetes.io/tls" => need(&["tls.crt", "tls.key"]),
        _ => {}
    }
}

/// An entry that holds a JSON object.
fn json_entry(at: &At<'_>) {
    if !at.present() {
        return at.required("");
    }
    let bytes = STANDARD.decode(at.str()).unwrap_or_default();
    if serde_json::from_slice::<Object>(&bytes).is_err() {
        let why = if bytes.is_empty() { "unexpected end of JSON input" } else { "invalid JSON object" };
        at.invalid_as("<secret contents redacted>", why);
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
