//! One pass over a stored object for the offsets that serving it needs.

use std::{borrow::Cow, fmt};

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::{Value, value::RawValue};

/// A piece of the stored bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) start: u32,
    pub(super) len: u16,
}

/// Where the spliced resource version needs its comma.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Comma {
    #[default]
    None,
    Before,
    After,
}

/// What serving an object needs to know of its bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// End of `{"kind":…,"apiVersion":…,`.
    pub(super) head: u32,
    /// Where the resource version goes.
    pub(super) splice: u32,
    pub(super) comma: Comma,
    pub(super) kind: Slice,
    pub(super) api_version: Slice,
    pub(super) labels: Box<[(Slice, Slice)]>,
}

/// Why bytes cannot be served as they are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("stored in protobuf, of a kind that this server does not know")]
    Protobuf,
    #[error("stored encrypted, and no key is configured")]
    Encrypted,
    #[error("stored value is not an object: {0}")]
    Malformed(String),
    /// Readable, but `kind` and `apiVersion` do not come first.
    #[error("kind and apiVersion do not come first")]
    Order,
}

/// Reads the layout of one object.
pub(super) fn scan(bytes: &[u8]) -> Result<Layout, Problem> {
    if bytes.starts_with(b"k8s\0") {
        return Err(Problem::Protobuf);
    }
    if bytes.starts_with(b"k8s:enc:") {
        return Err(Problem::Encrypted);
    }
    let text = std::str::from_utf8(bytes).map_err(|e| Problem::Malformed(e.to_string()))?;
    let top = pairs(text)?;
    let mut layout = Layout::default();
    let head = |at: usize, name: &str| top.get(at).filter(|(key, _)| key == name).map(|(_, raw)| *raw);
    let (kind, version) =
        match (head(0, "kind"), head(1, "apiVersion"), head(0, "apiVersion"), head(1, "kind")) {
            (Some(kind), Some(version), ..) => (kind, version),
            (_, _, Some(version), Some(kind)) => (kind, version),
            _ => return Err(Problem::Order),
        };
    let Some((_, metadata)) = top.iter().find(|(key, _)| key == "metadata") else {
        return Err(Problem::Order);
    };
    let last = top.get(1).map_or(kind, |(_, raw)| *raw);
    layout.head = number(end(text, last) + 1);
    layout.kind = inner(text, kind);
    layout.api_version = inner(text, version);
    place_version(text, metadata, &mut layout)?;
    Ok(layout)
}

/// The resource version goes after the identity, where upstream's encoder has it.
fn place_version(text: &str, metadata: &str, layout: &mut Layout) -> Result<(), Problem> {
    let meta = pairs(metadata)?;
    if meta.iter().any(|(key, _)| key == "resourceVersion") {
        return Err(Problem::Order);
    }
    let identity = |key: &str| matches!(key, "name" | "generateName" | "namespace" | "selfLink" | "uid");
    let before = meta.iter().take_while(|(key, _)| identity(key)).last();
    (layout.splice, layout.comma) = match before {
        Some((_, raw)) => (number(end(text, raw)), Comma::Before),
        None if meta.is_empty() => (number(offset(text, metadata) + 1), Comma::None),
        None => (number(offset(text, metadata) + 1), Comma::After),
    };
    let Some((_, labels)) = meta.iter().find(|(key, _)| key == "labels") else { return Ok(()) };
    if *labels == "null" {
        return Ok(());
    }
    // Labels hold no character that JSON escapes, so that they can be read in place.
    let labels = pairs(labels)?;
    let slices = labels.iter().filter_map(|(key, value)| match key {
        Cow::Borrowed(key) => Some((slice(text, key), inner(text, value))),
        Cow::Owned(_) => None,
    });
    layout.labels = slices.collect();
    Ok(())
}

type Pair<'a> = (Cow<'a, str>, &'a str);

/// The members of one JSON object as raw text.
fn pairs(text: &str) -> Result<Vec<Pair<'_>>, Problem> {
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(Members).map_err(|e| Problem::Malformed(e.to_string()))
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<Pair<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(8);
        while let Some((key, raw)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
            members.push((key.0, raw.get()));
        }
        Ok(members)
    }
}

/// A key, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// `part` is a piece of `text`.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

fn end(text: &str, part: &str) -> usize {
    offset(text, part) + part.len()
}

fn slice(text: &str, part: &str) -> Slice {
    Slice { start: number(offset(text, part)), len: u16::try_from(part.len()).unwrap_or(0) }
}

/// The inside of a raw JSON string.
fn inner(text: &str, raw: &str) -> Slice {
    slice(text, raw.strip_prefix('"').and_then(|r| r.strip_suffix('"')).unwrap_or_default())
}

/// Values are limited to megabytes, far below four gigabytes.
fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Writes an object with `kind` and `apiVersion` first and without a resource version.
pub(super) fn canonical(object: &Value) -> Vec<u8> {
    let mut members: Vec<(&str, Cow<'_, Value>)> = Vec::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        let value = match (name.as_str(), value) {
            ("metadata", Value::Object(meta)) if meta.contains_key("resourceVersion") => {
                let mut meta = meta.clone();
                meta.remove("resourceVersion");
                Cow::Owned(Value::Object(meta))
            }
            _ => Cow::Borrowed(value),
        };
        members.push((name, value));
    }
    let rank = |name: &str| ["kind", "apiVersion", "metadata"].iter().position(|n| *n == name).unwrap_or(3);
    members.sort_by_key(|(name, _)| rank(name));
    let mut out = b"{".to_vec();
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(Value::from(*name).to_string().as_bytes());
        out.push(b':');
        out.extend_from_slice(value.to_string().as_bytes());
    }
    out.push(b'}');
    out
}
