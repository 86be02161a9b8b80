use proptest::prelude::*;
use serde_json::json;

use super::{ProtobufError, decode, encode, open};
use crate::{
    builtin,
    decode::{FieldValidation, decode as decode_json},
    node::SchemaRef,
};

fn schema(kind: &str) -> SchemaRef<'static> {
    builtin().kind("", "v1", kind).expect("built in")
}

#[test]
fn a_pod_survives() {
    let body = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"x":"1"},"creationTimestamp":"2030-01-02T03:04:05Z"},
        "spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1500m"}},"livenessProbe":{"httpGet":{"port":"http"}},
            "securityContext":{"runAsUser":-1,"privileged":false}}],
        "terminationGracePeriodSeconds":0,"volumes":[{"name":"v","emptyDir":{}}]}}"#;
    let pod = decode_json(body, schema("Pod"), FieldValidation::Strict).expect("valid").object;
    let bytes = encode(&pod, schema("Pod"));
    let envelope = open(&bytes).expect("an envelope");
    assert_eq!((envelope.api_version.as_str(), envelope.kind.as_str()), ("v1", "Pod"));
    assert_eq!(decode(&envelope, schema("Pod")), Ok(pod));
}

#[test]
fn bytes_of_secrets_are_bytes() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "aGk=", "b": ""}});
    let bytes = encode(&secret, schema("Secret"));
    assert!(bytes.windows(2).any(|pair| pair == b"hi"));
    assert_eq!(decode(&open(&bytes).expect("an envelope"), schema("Secret")), Ok(secret));
}

#[test]
fn bad_bytes_are_refused() {
    assert_eq!(open(b"{}"), Err(ProtobufError::NoMagic));
    assert_eq!(open(b"k8s\0\x0a\x7f"), Err(ProtobufError::Truncated));
    let mut bytes = encode(&json!({"metadata": {"name": "a"}}), schema("Pod"));
    let at = bytes.iter().position(|b| *b == b'a').expect("the name");
    bytes[at] = 0xff;
    let broken = open(&bytes).and_then(|envelope| decode(&envelope, schema("Pod")));
    assert!(matches!(broken, Err(ProtobufError::Content(_))), "{broken:?}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut body = b"k8s\0".to_vec();
        body.extend(&bytes);
        if let Ok(envelope) = open(&body) {
            prop_assert!(decode(&envelope, schema("Pod")).map_or(true, |object| object.is_object()));
        }
        let envelope = super::Envelope { raw: &bytes, ..super::Envelope::default() };
        prop_assert!(decode(&envelope, schema("Pod")).map_or(true, |object| object.is_object()));
    }
}
