//! Cells that many kinds share.

use copepod_api::LabelSelector;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::duration::human_duration;

/// The string at a pointer, empty when absent.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The string at a pointer, or `other` when absent or empty.
pub(super) fn text_or<'a>(object: &'a Value, pointer: &str, other: &'a str) -> &'a str {
    Some(text(object, pointer)).filter(|t| !t.is_empty()).unwrap_or(other)
}

/// The integer at a pointer, 0 when absent.
pub(super) fn int(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// The list at a pointer, empty when absent.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// How many entries a list or map has.
pub(super) fn count(object: &Value, pointer: &str) -> i64 {
    let len = match object.pointer(pointer) {
        Some(Value::Array(list)) => list.len(),
        Some(Value::Object(map)) => map.len(),
        _ => 0,
    };
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// The strings of a list, joined.
pub(super) fn joined(object: &Value, pointer: &str, separator: &str) -> String {
    let strings: Vec<&str> = list(object, pointer).iter().filter_map(Value::as_str).collect();
    strings.join(separator)
}

/// A boolean, or `default` when absent.
pub(super) fn flag(object: &Value, pointer: &str, default: bool) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(default)
}

/// An integer or string (`IntOrString`, quantity) as text; `None` when absent.
pub(super) fn scalar(object: &Value, pointer: &str) -> Option<String> {
    match object.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Whole seconds from one time to another, towards zero.
pub(super) fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    let nanos = to.as_nanosecond() - from.as_nanosecond();
    i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX)
}

/// The time at a pointer.
pub(super) fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// How long ago a time was.
pub(super) fn since(now: Timestamp, time: Option<Timestamp>) -> String {
    time.map_or_else(|| "<unknown>".to_owned(), |time| human_duration(seconds_between(time, now)))
}

/// How long ago the object was made.
pub(super) fn age(now: Timestamp, object: &Value) -> Value {
    since(now, time(object, "/metadata/creationTimestamp")).into()
}

/// Names and images of a pod spec's containers.
pub(super) fn containers(spec: Option<&Value>) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let containers =
            spec.and_then(|s| s.get("containers")).and_then(Value::as_array).into_iter().flatten();
        let texts: Vec<&str> =
            containers.map(|c| c.get(field).and_then(Value::as_str).unwrap_or_default()).collect();
        texts.join(",").into()
    })
}

/// Labels as `a=b,c=d`, or `<none>`.
pub(super) fn labels(map: Option<&Value>) -> Value {
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    let mut pairs: Vec<String> =
        pairs.map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    pairs.sort();
    if pairs.is_empty() { "<none>".into() } else { pairs.join(",").into() }
}

/// A label selector as the query form, or `<none>`.
pub(super) fn selector(selector: Option<&Value>) -> String {
    let text = selector_text(selector);
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// A label selector as the query form; empty selects everything.
pub(super) fn selector_text(selector: Option<&Value>) -> String {
    match LabelSelector::from_object(selector) {
        Ok(_) if selector.is_none() => String::new(),
        Ok(parsed) => parsed.to_string(),
        Err(_) => "<error>".to_owned(),
    }
}

/// A list joined by commas, cut after `max` entries: `a,b,c + 2 more...`; `<unset>` when empty.
pub(super) fn more(entries: &[String], max: usize) -> String {
    let shown = entries.get(..entries.len().min(max)).unwrap_or_default().join(",");
    if entries.len() > max {
        format!("{shown} + {} more...", entries.len() - max)
    } else if shown.is_empty() {
        "<unset>".to_owned()
    } else {
        shown
    }
}

/// The status of the condition `kind` of a list of conditions.
pub(super) fn condition<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a str> {
    let found = conditions.iter().find(|c| c.get("type").and_then(Value::as_str) == Some(kind))?;
    found.get("status").and_then(Value::as_str)
}

/// Whether the object is being deleted.
pub(super) fn deleting(object: &Value) -> bool {
    copepod_api::meta::deletion_timestamp(object).is_some()
}

/// Whether an annotation says `true`.
pub(super) fn annotated(object: &Value, key: &str) -> bool {
    copepod_api::meta::annotation(object, key) == Some("true")
}

/// The map at a pointer.
pub(super) fn map<'a>(object: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    object.pointer(pointer).and_then(Value::as_object)
}
