//! Pods made from templates, and the hashes that name templates.

use copepod_client::{Meta, OwnerReference};
use serde_json::{Map, Value, json};

/// Characters of generated names: no vowels and no look-alikes, so that no words appear.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Longest base of a generated name; five characters are added.
const LONGEST_BASE: usize = 58;

/// A pod from a template, ready to be created.
#[must_use]
pub(crate) fn pod_from(template: &Value, namespace: &str, base: &str, owner: &OwnerReference) -> Value {
    let part = |field: &str| template.pointer(&format!("/metadata/{field}")).cloned().unwrap_or(Value::Null);
    let mut metadata = Map::new();
    metadata.insert("generateName".to_owned(), json!(generate_name(base)));
    metadata.insert("namespace".to_owned(), json!(namespace));
    metadata.insert("ownerReferences".to_owned(), json!([owner]));
    for field in ["labels", "annotations", "finalizers"] {
        let value = part(field);
        if !value.is_null() {
            metadata.insert(field.to_owned(), value);
        }
    }
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
    })
}

/// `base-`, shortened so that the server's suffix fits.
#[must_use]
pub(crate) fn generate_name(base: &str) -> String {
    let cut: String = base.chars().take(LONGEST_BASE - 1).collect();
    format!("{cut}-")
}

/// A short stable hash of a template (and of how often its name has clashed), in the alphabet of generated names.
#[must_use]
pub(crate) fn hash(template: &Value, collisions: Option<i64>) -> String {
    let mut state = 0x811c_9dc5_u32;
    let mut feed = |bytes: &[u8]| {
        for byte in bytes {
            state = (state ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    };
    // A map's keys come in order, so equal templates have equal texts.
    feed(template.to_string().as_bytes());
    if let Some(count) = collisions {
        feed(&count.to_le_bytes());
    }
    encode(&state.to_string())
}

/// Writes each byte as one character of the alphabet.
#[must_use]
pub(crate) fn encode(text: &str) -> String {
    text.bytes().map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}

/// A template without the label that tells revisions apart: what two revisions are compared by.
#[must_use]
pub(crate) fn without_label(template: &Value, label: &str) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(label);
        if labels.is_empty()
            && let Some(meta) = template.get_mut("metadata").and_then(Value::as_object_mut)
        {
            meta.remove("labels");
        }
    }
    template
}

/// A template with one more label.
#[must_use]
pub(crate) fn with_label(template: &Value, label: &str, value: &str) -> Value {
    let mut template = template.clone();
    let metadata = copepod_api::meta::metadata_mut(&mut template);
    copepod_api::meta::child_mut(metadata, "labels").insert(label.to_owned(), json!(value));
    template
}

/// Oldest first; of the same age by name.
pub(crate) fn by_age(a: &Meta, b: &Meta) -> std::cmp::Ordering {
    (a.creation_timestamp, &a.name).cmp(&(b.creation_timestamp, &b.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_stable_and_in_the_alphabet() {
        let template = json!({"spec": {"b": 1, "a": [2]}});
        let again: Value = serde_json::from_str(r#"{"spec": {"a": [2], "b": 1}}"#).unwrap();
        assert_eq!(hash(&template, None), hash(&again, None));
        assert_ne!(hash(&template, None), hash(&template, Some(1)));
        assert!(hash(&template, None).bytes().all(|b| ALPHABET.contains(&b)));
    }

    #[test]
    fn revisions_compare_without_their_label() {
        let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {}});
        let labelled = with_label(&template, "pod-template-hash", "abc");
        assert_eq!(labelled["metadata"]["labels"]["pod-template-hash"], "abc");
        assert_eq!(without_label(&labelled, "pod-template-hash"), template);
        let bare = with_label(&json!({"spec": {}}), "h", "1");
        assert_eq!(without_label(&bare, "h"), json!({"metadata": {}, "spec": {}}));
    }
}
