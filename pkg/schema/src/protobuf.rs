//! The protobuf encoding of built-in objects (`application/vnd.kubernetes.protobuf`), driven by the tables.
//!
//! A body is the magic `k8s\0` and an `Unknown` message: type, raw bytes of the object's own message. What Go holds
//! by value is always written, zero or not; what it holds behind pointers only when it is there. Decoding yields the
//! canonical tree that the JSON body would have given. Custom resources have no protobuf form.

use std::fmt;

use copepod_api::GroupVersion;
use serde_json::{Map, Value};

use crate::{builtin, canonical, node::SchemaRef};

mod read;
#[cfg(test)]
mod tests;
pub(crate) mod wire;
mod write;

/// The first bytes of every body.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// Why bytes are no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtobufError {
    /// The body does not start with [`MAGIC`].
    NoMagic,
    /// A length or a varint runs over the end.
    Truncated,
    /// A field has another wire type than its schema says.
    WireType {
        /// The field's number.
        number: u32,
    },
    /// Text that is not UTF-8, or embedded JSON that does not parse.
    Content(String),
    /// Messages are nested deeper than any object is.
    TooDeep,
}

impl std::error::Error for ProtobufError {}

impl fmt::Display for ProtobufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMagic => f.write_str(
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
            ),
            Self::Truncated => f.write_str("unexpected EOF"),
            Self::WireType { number } => write!(f, "proto: wrong wireType for field {number}"),
            Self::Content(text) => f.write_str(text),
            Self::TooDeep => f.write_str("proto: messages are nested too deeply"),
        }
    }
}

/// The envelope of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Envelope<'b> {
    /// `apiVersion`; may be empty in bodies that the request's path explains.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// The object's own message.
    pub raw: &'b [u8],
    /// The media type of `raw`; empty for protobuf.
    pub content_type: String,
}

/// Opens the envelope of a body.
///
/// # Errors
/// A body without [`MAGIC`], or a malformed envelope.
pub fn open(body: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    let message = body.strip_prefix(MAGIC.as_slice()).ok_or(ProtobufError::NoMagic)?;
    let mut envelope = Envelope::default();
    for field in wire::Fields::new(message) {
        let field = field?;
        match field.number {
            1 => {
                for part in wire::Fields::new(field.bytes()?) {
                    let part = part?;
                    match part.number {
                        1 => part.text()?.clone_into(&mut envelope.api_version),
                        2 => part.text()?.clone_into(&mut envelope.kind),
                        _ => {}
                    }
                }
            }
            2 => envelope.raw = field.bytes()?,
            4 => field.text()?.clone_into(&mut envelope.content_type),
            _ => {}
        }
    }
    Ok(envelope)
}

/// Types of `meta/v1` that every group version registers as its own.
const SHARED: [&str; 10] = [
    "APIVersions",
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
    "PatchOptions",
    "UpdateOptions",
    "WatchEvent",
];

/// The type that an envelope names; `None` for what has no protobuf form here.
#[must_use]
pub fn schema_of(api_version: &str, kind: &str) -> Option<SchemaRef<'static>> {
    let GroupVersion { group, version } = GroupVersion::parse(api_version)?;
    builtin().kind(&group, &version, kind).or_else(|| {
        let shared =
            SHARED.contains(&kind).then(|| format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"))?;
        builtin().model(&shared)
    })
}

/// An event of a watch: what happened, and the object with its envelope.
///
/// # Errors
/// Malformed bytes.
pub fn read_event(frame: &[u8]) -> Result<(&str, &[u8]), ProtobufError> {
    let (mut kind, mut object) = ("", [].as_slice());
    for field in wire::Fields::new(frame) {
        let field = field?;
        match field.number {
            1 => kind = field.text()?,
            2 => {
                for part in wire::Fields::new(field.bytes()?) {
                    let part = part?;
                    if part.number == 1 {
                        object = part.bytes()?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok((kind, object))
}

/// The event [`read_event`] reads, without the length before it.
#[must_use]
pub fn write_event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut extension = Vec::with_capacity(object.len() + 8);
    wire::put_bytes(&mut extension, 1, object);
    let mut event = Vec::with_capacity(extension.len() + 24);
    wire::put_bytes(&mut event, 1, kind.as_bytes());
    wire::put_bytes(&mut event, 2, &extension);
    event
}

/// Decodes an object's own message into its canonical tree.
///
/// # Errors
/// Malformed bytes.
pub fn decode(envelope: &Envelope<'_>, schema: SchemaRef<'_>) -> Result<Value, ProtobufError> {
    let mut object = Value::Object(read::message(envelope.raw, schema, 0)?);
    canonical::canonicalize(&mut object, schema);
    if let Value::Object(map) = &mut object {
        set_type(map, "apiVersion", &envelope.api_version);
        set_type(map, "kind", &envelope.kind);
    }
    Ok(object)
}

fn set_type(map: &mut Map<String, Value>, key: &str, value: &str) {
    if !value.is_empty() {
        map.insert(key.to_owned(), value.into());
    }
}

/// Encodes an object with its envelope. The tree should be canonical.
#[must_use]
pub fn encode(object: &Value, schema: SchemaRef<'_>) -> Vec<u8> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut type_meta = Vec::new();
    wire::put_bytes(&mut type_meta, 1, text("apiVersion").as_bytes());
    wire::put_bytes(&mut type_meta, 2, text("kind").as_bytes());
    let raw = encode_message(object, schema);
    let mut out = Vec::with_capacity(raw.len() + type_meta.len() + 24);
    out.extend_from_slice(MAGIC);
    wire::put_bytes(&mut out, 1, &type_meta);
    wire::put_bytes(&mut out, 2, &raw);
    wire::put_bytes(&mut out, 3, b"");
    wire::put_bytes(&mut out, 4, b"");
    out
}

/// Encodes an object's own message, without envelope.
#[must_use]
pub fn encode_message(object: &Value, schema: SchemaRef<'_>) -> Vec<u8> {
    let empty = Map::new();
    write::message(object.as_object().unwrap_or(&empty), schema)
}
