//! JSON patch (RFC 6902) with the error texts and limits of upstream's implementation.
//!
//! Deliberate differences of upstream from the RFC, kept: `replace` of a missing member of an object adds it,
//! negative indices count from the end, and the bytes that `copy` may add are limited.

use serde_json::{Map, Value};

use super::PatchError;
use crate::decode::{self, FieldValidation};

/// Most operations in one patch.
pub const MAX_OPERATIONS: usize = 10_000;

/// Most bytes that the copy operations of one patch may add; upstream sets it to the body limit.
pub const MAX_COPY_BYTES: usize = 3 * 1024 * 1024;

/// One operation; unknown members are ignored.
#[derive(Debug, Clone, Default)]
pub(super) struct Operation {
    op: String,
    path: Option<String>,
    from: Option<String>,
    /// Told apart from `null`, which is a value.
    value: Option<Value>,
}

impl Operation {
    fn read(value: Value) -> Result<Self, PatchError> {
        let mut map = match value {
            Value::Null => return Ok(Self { op: "unknown".to_owned(), ..Self::default() }),
            Value::Object(map) => map,
            other => return Err(mismatch(&other, "value of type handlers.jsonPatchOp")),
        };
        let mut text = |field: &str| match map.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(mismatch(&other, &format!("struct field jsonPatchOp.{field} of type string"))),
        };
        let (op, path, from) = (text("op")?, text("path")?, text("from")?);
        Ok(Self { op: op.unwrap_or_default(), path, from, value: map.remove("value") })
    }

    /// The places that the operation touches.
    pub(super) fn pointers(&self) -> impl Iterator<Item = &str> {
        self.path.iter().chain(&self.from).map(String::as_str)
    }
}

/// Applies the patch in `body` to `object`, which keeps its old value when an operation fails half-way.
///
/// # Errors
/// A malformed patch, too many operations, or an operation that does not apply.
pub fn json(object: &mut Value, body: &[u8]) -> Result<(), PatchError> {
    let operations = operations(body, FieldValidation::Warn)?;
    let mut patched = object.clone();
    run(&mut patched, &operations)?;
    *object = patched;
    Ok(())
}

pub(super) fn operations(body: &[u8], validation: FieldValidation) -> Result<Vec<Operation>, PatchError> {
    let (value, _) = decode::untyped(body)
        .map_err(|text| PatchError::Malformed(format!("error decoding patch: {text}")))?;
    let list = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        other if validation == FieldValidation::Ignore => {
            let what = format!("{} into Go value of type jsonpatch.Patch", super::type_name(&other));
            return Err(PatchError::Malformed(format!("json: cannot unmarshal {what}")));
        }
        other => return Err(mismatch(&other, "value of type []handlers.jsonPatchOp")),
    };
    let operations = list.into_iter().map(Operation::read).collect::<Result<Vec<_>, _>>()?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    Ok(operations)
}

fn mismatch(found: &Value, wanted: &str) -> PatchError {
    let what = format!("{} into Go {wanted}", super::type_name(found));
    PatchError::Malformed(format!("error decoding patch: json: cannot unmarshal {what}"))
}

/// What strict validation objects to in the patch document itself.
pub(super) fn complaints(body: &[u8], validation: FieldValidation) -> Vec<String> {
    if validation == FieldValidation::Ignore {
        return Vec::new();
    }
    let Ok((Value::Array(operations), duplicates)) = decode::untyped(body) else { return Vec::new() };
    let known = ["op", "path", "from", "value"];
    let unknown = operations.iter().enumerate().flat_map(|(at, operation)| {
        let keys = operation.as_object().into_iter().flat_map(Map::keys);
        keys.filter(|key| !known.contains(&key.as_str()))
            .map(move |key| format!("unknown field \"[{at}].{key}\""))
    });
    duplicates.into_iter().chain(unknown).map(|text| format!("json patch {text}")).collect()
}

pub(super) fn run(object: &mut Value, operations: &[Operation]) -> Result<(), PatchError> {
    let mut copied = 0;
    for operation in operations {
        step(object, operation, &mut copied).map_err(PatchError::Unprocessable)?;
    }
    Ok(())
}

const MISSING: &str = "missing value";
const NO_FIELD: &str = "operation missing path field: missing value";

fn step(doc: &mut Value, operation: &Operation, copied: &mut usize) -> Result<(), String> {
    let Operation { op, .. } = operation;
    let path = operation.path.as_deref();
    let from = operation.from.as_deref();
    match op.as_str() {
        "add" => add(doc, path, operation.value.clone()),
        "remove" => remove(doc, path),
        "replace" => replace(doc, path, operation.value.clone()),
        "test" => test(doc, path, operation.value.as_ref()),
        "move" => {
            let from = from.ok_or_else(|| format!("move operation failed to decode from: {NO_FIELD}"))?;
            let (parent, key) = find(doc, from).ok_or_else(|| {
                format!("move operation does not apply: doc is missing from path: {from}: {MISSING}")
            })?;
            let failed = |error| format!("error in move for path: '{key}': {error}");
            let value = get(parent, &key).map_err(failed)?.cloned();
            take(parent, &key).map_err(failed)?;
            put(doc, "move", path, value.unwrap_or_default(), "error in move for path")
        }
        "copy" => {
            let from = from.ok_or_else(|| format!("copy operation failed to decode from: {NO_FIELD}"))?;
            let (parent, key) = find(doc, from).ok_or_else(|| {
                format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}")
            })?;
            let value =
                get(parent, &key).map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
            let value = value.cloned().unwrap_or_default();
            *copied += value.to_string().len();
            if *copied > MAX_COPY_BYTES {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied}, \
                     exceeding the limit {MAX_COPY_BYTES}"
                ));
            }
            put(doc, "copy", path, value, "error while adding value during copy")
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn add(doc: &mut Value, path: Option<&str>, value: Option<Value>) -> Result<(), String> {
    let path = path.ok_or_else(|| format!("add operation failed to decode path: {MISSING}"))?;
    let (parent, key) = find(doc, path)
        .ok_or_else(|| format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}"))?;
    insert(parent, &key, value.unwrap_or_default())
        .map_err(|error| format!("error in add for path: '{path}': {error}"))
}

fn remove(doc: &mut Value, path: Option<&str>) -> Result<(), String> {
    let path = path.ok_or_else(|| format!("remove operation failed to decode path: {MISSING}"))?;
    let (parent, key) = find(doc, path).ok_or_else(|| {
        format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}")
    })?;
    take(parent, &key).map_err(|error| format!("error in remove for path: '{path}': {error}"))
}

fn replace(doc: &mut Value, path: Option<&str>, value: Option<Value>) -> Result<(), String> {
    let path = path.ok_or_else(|| format!("replace operation failed to decode path: {NO_FIELD}"))?;
    let value = value.unwrap_or_default();
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".to_owned());
        }
        *doc = value;
        return Ok(());
    }
    let (parent, key) = find(doc, path)
        .ok_or_else(|| format!("replace operation does not apply: doc is missing path: {path}: {MISSING}"))?;
    get(parent, &key)
        .map_err(|_| format!("replace operation does not apply: doc is missing key: {path}: {MISSING}"))?;
    match parent {
        Value::Array(list) => {
            let at = index(&key, list.len())?;
            list[at] = value;
        }
        Value::Object(map) => {
            map.insert(key, value);
        }
        _ => {}
    }
    Ok(())
}

fn test(doc: &mut Value, path: Option<&str>, value: Option<&Value>) -> Result<(), String> {
    let path = path.ok_or_else(|| format!("test operation failed to decode path: {NO_FIELD}"))?;
    let failed = || format!("testing value {path} failed: test failed");
    let wanted = value.unwrap_or(&Value::Null);
    if path.is_empty() {
        return if doc == wanted { Ok(()) } else { Err(failed()) };
    }
    let (parent, key) = find(doc, path)
        .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: {MISSING}"))?;
    let found = get(parent, &key).map_err(|error| format!("error in test for path: '{path}': {error}"))?;
    if found.unwrap_or(&Value::Null) == wanted { Ok(()) } else { Err(failed()) }
}

/// The second half of move and copy.
fn put(doc: &mut Value, op: &str, path: Option<&str>, value: Value, failure: &str) -> Result<(), String> {
    let path = path.ok_or_else(|| format!("{op} operation failed to decode path: {NO_FIELD}"))?;
    let (parent, key) = find(doc, path).ok_or_else(|| {
        format!("{op} operation does not apply: doc is missing destination path: {path}: {MISSING}")
    })?;
    insert(parent, &key, value).map_err(|error| match op {
        "move" => format!("{failure}: '{path}': {error}"),
        _ => format!("{failure}: {error}"),
    })
}

/// The container that holds the last element of a pointer, and that element.
fn find<'v>(doc: &'v mut Value, path: &str) -> Option<(&'v mut Value, String)> {
    let mut parts = path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
    let mut key = parts.next()?;
    let mut current = doc;
    for next in parts {
        current = match current {
            Value::Object(map) => map.get_mut(&key)?,
            Value::Array(list) => {
                let at = index(&key, list.len()).ok()?;
                list.get_mut(at)?
            }
            _ => return None,
        };
        key = next;
    }
    matches!(current, Value::Object(_) | Value::Array(_)).then_some((current, key))
}

fn number(key: &str) -> Result<i64, String> {
    key.parse().map_err(|_| format!("strconv.Atoi: parsing {key:?}: invalid syntax"))
}

/// An index into a list of `len` items; negative ones count from the end.
fn index(key: &str, len: usize) -> Result<usize, String> {
    let given = number(key)?;
    let from_end = i64::try_from(len).unwrap_or(i64::MAX) + given;
    let at = if given < 0 { usize::try_from(from_end) } else { usize::try_from(given) };
    at.ok()
        .filter(|at| *at < len)
        .ok_or_else(|| format!("Unable to access invalid index: {given}: invalid index referenced"))
}

/// A missing member of an object is not an error here.
fn get<'v>(container: &'v Value, key: &str) -> Result<Option<&'v Value>, String> {
    match container {
        Value::Array(list) => index(key, list.len()).map(|at| list.get(at)),
        other => Ok(other.get(key)),
    }
}

fn insert(container: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match container {
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
        }
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => {
            if number(key).is_err() {
                return Err(format!(
                    "value was not a proper array index: '{key}': strconv.Atoi: parsing {key:?}: invalid syntax"
                ));
            }
            let at = index(key, list.len() + 1)?;
            list.insert(at, value);
        }
        _ => {}
    }
    Ok(())
}

fn take(container: &mut Value, key: &str) -> Result<(), String> {
    match container {
        Value::Object(map) => map
            .remove(key)
            .map(drop)
            .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}")),
        Value::Array(list) => {
            let at = index(key, list.len())?;
            list.remove(at);
            Ok(())
        }
        _ => Ok(()),
    }
}
