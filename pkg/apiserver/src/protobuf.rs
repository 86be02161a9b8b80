//! The protobuf encoding at the edge of the server. Inside, objects are JSON; built-in kinds are translated by the
//! schema tables, custom resources have no protobuf form, as upstream.

use bytes::Bytes;
use copepod_api::{ApiError, ApiResult};
use copepod_schema::protobuf;
use serde_json::Value;

/// The media type.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The JSON of a protobuf body; an empty body stays empty.
pub(crate) fn to_json(body: &[u8]) -> ApiResult<Bytes> {
    if body.is_empty() {
        return Ok(Bytes::new());
    }
    let bad = |why: &dyn std::fmt::Display| ApiError::bad_request(why.to_string());
    let envelope = protobuf::open(body).map_err(|e| bad(&e))?;
    let schema = protobuf::schema_of(&envelope.api_version, &envelope.kind).ok_or_else(|| {
        bad(&format!("no kind \"{}\" is registered for version \"{}\"", envelope.kind, envelope.api_version))
    })?;
    let object = protobuf::decode(&envelope, schema).map_err(|e| bad(&e))?;
    Ok(object.to_string().into())
}

/// The protobuf form of an object in JSON; `None` for kinds that have none.
pub(crate) fn from_json(bytes: &[u8]) -> ApiResult<Option<Vec<u8>>> {
    let object: Value = serde_json::from_slice(bytes).map_err(ApiError::internal)?;
    Ok(from_value(&object))
}

fn from_value(object: &Value) -> Option<Vec<u8>> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    Some(protobuf::encode(object, protobuf::schema_of(text("apiVersion"), text("kind"))?))
}

/// One event of a watch: its length in four bytes, then a `WatchEvent` whose object is encoded with its envelope.
pub(crate) fn watch_frame(kind: &str, object: &Value) -> Option<Bytes> {
    let raw = from_value(object)?;
    let mut event = protobuf::write_event(kind, &raw);
    let length = u32::try_from(event.len()).ok()?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.append(&mut event);
    Some(frame.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_are_known_in_every_version() {
        for version in ["v1", "apps/v1", "apiextensions.k8s.io/v1"] {
            let options = json!({"apiVersion": version, "kind": "DeleteOptions", "gracePeriodSeconds": 0});
            let bytes = from_json(options.to_string().as_bytes()).unwrap().unwrap();
            let back: Value = serde_json::from_slice(&to_json(&bytes).unwrap()).unwrap();
            assert_eq!(back["gracePeriodSeconds"], 0, "{version}");
        }
    }

    #[test]
    fn there_and_back() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let bytes = from_json(pod.to_string().as_bytes()).unwrap().unwrap();
        let back: Value = serde_json::from_slice(&to_json(&bytes).unwrap()).unwrap();
        assert_eq!(back["spec"]["containers"][0]["image"], "i");
        assert_eq!(back["kind"], "Pod");
        let frame = watch_frame("ADDED", &pod).unwrap();
        let length = u32::from_be_bytes(frame[..4].try_into().unwrap());
        assert_eq!(length as usize, frame.len() - 4);
        assert_eq!(&frame[4..11], b"\x0a\x05ADDED");
    }

    #[test]
    fn bad_bodies_are_refused() {
        assert_eq!(to_json(b"{}").unwrap_err().code(), 400);
        assert!(to_json(b"").unwrap().is_empty());
        assert!(from_json(br#"{"apiVersion":"x/v1","kind":"Foo"}"#).unwrap().is_none());
    }
}
