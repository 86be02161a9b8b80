//! Configuration files of single components, in upstream's form (`KubeletConfiguration`, `KubeProxyConfiguration`).
//!
//! A component's type holds the fields it honours, each an `Option`. A field that is not in the type may stand in the
//! file without a value, since kubeadm writes out every one of them, most of them zero; with a value it is refused by its
//! full path. So a file either takes effect as a whole or says what does not.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::ConfigError;

/// The fields of a component's file.
pub trait ComponentConfig: DeserializeOwned + Serialize {
    /// Such as `kubelet.config.k8s.io/v1beta1`.
    const API_VERSION: &'static str;
    /// Such as `KubeletConfiguration`.
    const KIND: &'static str;
}

/// Reads a component's configuration file.
///
/// # Errors
/// Names the file, and the fields that are not honoured or not what they should be.
pub fn load_component<T: ComponentConfig>(path: &Path) -> Result<T, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    parse_component(&text).map_err(|why| ConfigError::Parse { path: path.to_owned(), why })
}

/// Reads the text of a component's configuration.
///
/// # Errors
/// A sentence that names the fields that are not honoured or not what they should be.
pub fn parse_component<T: ComponentConfig>(text: &str) -> Result<T, String> {
    let mut given: Value = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
    let fields = given.as_object_mut().ok_or("it is no object")?;
    for (key, want) in [("apiVersion", T::API_VERSION), ("kind", T::KIND)] {
        let is = fields.remove(key).unwrap_or_default();
        if is != want {
            return Err(format!("{key} is {is}, wanted is {want:?}"));
        }
    }
    let config: T = serde_json::from_value(given.clone()).map_err(|e| e.to_string())?;
    let understood = serde_json::to_value(&config).map_err(|e| e.to_string())?;
    let mut unknown = Vec::new();
    compare(&given, &understood, "", &mut unknown);
    if unknown.is_empty() { Ok(config) } else { Err(format!("not supported here: {}", unknown.join(", "))) }
}

/// Collects the paths of values in `given` that `understood` has no place for.
fn compare(given: &Value, understood: &Value, path: &str, unknown: &mut Vec<String>) {
    let (Value::Object(given), Value::Object(understood)) = (given, understood) else { return };
    for (key, value) in given {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match understood.get(key) {
            Some(known) => compare(value, known, &path, unknown),
            None if is_empty(value) => {}
            None if value.is_object() => compare(value, &Value::Object(Map::new()), &path, unknown),
            None => unknown.push(path),
        }
    }
}

/// Whether a value says nothing. A `false` says something: many of upstream's switches are on by default.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => matches!(text.as_str(), "" | "0" | "0s"),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize, Serialize)]
    #[serde(default)]
    struct Sample {
        port: Option<u16>,
        inner: Inner,
        map: BTreeMap<String, String>,
    }

    #[derive(Debug, Default, Deserialize, Serialize)]
    #[serde(default)]
    struct Inner {
        file: Option<String>,
    }

    impl ComponentConfig for Sample {
        const API_VERSION: &'static str = "v1";
        const KIND: &'static str = "Sample";
    }

    fn read(fields: &str) -> Result<Sample, String> {
        parse_component(&format!("apiVersion: v1\nkind: Sample\n{fields}\n"))
    }

    #[test]
    fn known_fields_are_read() {
        let sample = read("port: 7\ninner: {file: /f}\nmap: {any: thing}").unwrap();
        assert_eq!((sample.port, sample.inner.file.as_deref()), (Some(7), Some("/f")));
        assert_eq!(sample.map["any"], "thing");
    }

    #[test]
    fn unknown_fields_may_say_nothing() {
        assert!(
            read("wait: 0s\nlogging: {options: {json: {size: \"0\"}}, flush: 0}\nlist: []\nother: null")
                .is_ok()
        );
        let why = read("wait: 5s\ninner: {more: 1, less: ''}\nswitch: false").unwrap_err();
        assert_eq!(why, "not supported here: inner.more, switch, wait");
    }

    #[test]
    fn another_kind_is_refused() {
        let why = parse_component::<Sample>("apiVersion: v1\nkind: Other\n").unwrap_err();
        assert_eq!(why, "kind is \"Other\", wanted is \"Sample\"");
    }
}
