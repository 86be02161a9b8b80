//! The three patch types that make a new object from the current one: strategic merge, JSON merge, JSON patch.
//!
//! [`apply`] is the whole step of a PATCH request up to field ownership: patch, then decode the result against the
//! schema as if it had been sent, with upstream's statuses for everything that can go wrong. The single algorithms
//! are public as well.

use copepod_api::{
    ApiError, FieldError, FieldPath, GroupVersionKind,
    status::{Reason, StatusDetails},
};
use serde_json::{Map, Value};

use crate::{
    decode::{self, DecodeError, Decoded, FieldValidation},
    node::SchemaRef,
};

mod json;
mod order;
mod restore;
mod shown;
mod strategic;
#[cfg(test)]
mod tests;

pub use json::{MAX_COPY_BYTES, MAX_OPERATIONS, json};
pub(crate) use order::go_text;
pub use strategic::strategic;

/// The media types of patches that need only the current object; apply is in [`crate::managed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`; built-in kinds only.
    Strategic,
}

/// Why a patch cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is malformed: 400.
    #[error("{0}")]
    Malformed(String),
    /// The patch does not fit the object: 422.
    #[error("{0}")]
    Unprocessable(String),
    /// Upstream answers these with 500.
    #[error("{0}")]
    Internal(String),
    /// More operations than one JSON patch may hold: 413.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
}

impl PatchError {
    /// Whether a `test` operation found another value.
    #[must_use]
    pub fn is_failed_test(&self) -> bool {
        matches!(self, Self::Unprocessable(text) if text.starts_with("testing value ") && text.ends_with("test failed"))
    }

    /// The status upstream answers with.
    #[must_use]
    pub fn to_api_error(&self) -> ApiError {
        let text = self.to_string();
        match self {
            Self::Malformed(_) => ApiError::new(Reason::BadRequest, text),
            // Upstream keeps the details to itself.
            Self::Unprocessable(_) => ApiError::new(
                Reason::Invalid,
                "the server rejected our request due to an error in our request",
            )
            .with_details(StatusDetails::default()),
            Self::Internal(_) => ApiError::unreasoned(&text),
            Self::TooManyOperations(_) => {
                ApiError::new(Reason::RequestEntityTooLarge, format!("Request entity is too large: {text}"))
            }
        }
    }
}

/// Applies the body of a PATCH request to `current` and decodes the result: pruned, type-checked, canonical. `retyped`
/// says what is wrong when the result is of another kind than `current`.
///
/// # Errors
/// The status to answer with: 400 for a malformed patch, 413 for too many operations, 422 where the patch does not
/// fit the object or its result does not fit the schema.
pub fn apply(
    type_: PatchType,
    current: &Value,
    body: &[u8],
    schema: SchemaRef<'_>,
    validation: FieldValidation,
    retyped: impl Fn(&Value) -> Option<String>,
) -> Result<Decoded, ApiError> {
    if serde_json::from_slice::<serde::de::IgnoredAny>(body).is_err() {
        return Err(ApiError::bad_request("invalid JSON patch"));
    }
    let (patched, shown, complaints) = match type_ {
        PatchType::Json => {
            let operations = json::operations(body, validation).map_err(|error| error.to_api_error())?;
            let mut object = current.clone();
            json::run(&mut object, &operations).map_err(|error| error.to_api_error())?;
            let shown = shown::operated(&object, &operations, schema);
            (object, shown, json::complaints(body, validation))
        }
        PatchType::Merge => {
            let (patch, duplicates) =
                if validation == FieldValidation::Ignore { decode::untyped(body) } else { parse(body) }
                    .map_err(|text| ApiError::bad_request(format!("error decoding patch: {text}")))?;
            if !patch.is_object() && !patch.is_array() {
                return Err(ApiError::bad_request("Invalid JSON Patch"));
            }
            let mut object = current.clone();
            merge(&mut object, &patch);
            let shown = shown::merged(&object, &patch, schema);
            (object, shown, duplicates)
        }
        PatchType::Strategic => {
            let (patch, duplicates) = parse(body).map_err(ApiError::bad_request)?;
            let patch = if patch.is_null() { Value::Object(Map::new()) } else { patch };
            let object = strategic(current, &patch, schema).map_err(|error| error.to_api_error())?;
            if let Some(why) = restore::mismatch(&object, schema) {
                return Err(unfit(&go_text(&patch), &why));
            }
            (object, go_text(&patch), duplicates)
        }
    };
    if let Some(why) = retyped(&patched) {
        return Err(unfit(&shown, &why));
    }
    finish(&patched, complaints, schema, validation).map_err(|detail| unfit(&shown, &detail))
}

/// The refusal of a patch whose result does not fit the schema.
fn unfit(shown: &str, why: &str) -> ApiError {
    let error = FieldError::invalid(&FieldPath::new("patch"), shown, why);
    ApiError::invalid(&GroupVersionKind::default(), "", &vec![error])
}

/// Decodes the patched tree; complaints about the patch itself come first.
fn finish(
    patched: &Value,
    mut complaints: Vec<String>,
    schema: SchemaRef<'_>,
    validation: FieldValidation,
) -> Result<Decoded, String> {
    let lenient = if validation == FieldValidation::Strict { FieldValidation::Warn } else { validation };
    let decoded = decode::decode_value(patched, schema, lenient).map_err(|error| error.to_string())?;
    if validation == FieldValidation::Ignore {
        complaints.clear();
    }
    complaints.extend(decoded.warnings);
    if validation == FieldValidation::Strict && !complaints.is_empty() {
        return Err(DecodeError::Strict(complaints).to_string());
    }
    Ok(Decoded { object: decoded.object, warnings: complaints })
}

/// Parses a patch that must be an object, or `null`, naming duplicate fields.
fn parse(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let (patch, duplicates) = decode::untyped(body)?;
    if !patch.is_object() && !patch.is_null() {
        let kind = type_name(&patch);
        return Err(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"));
    }
    Ok((patch, duplicates))
}

/// What Go's decoder calls the type of a JSON value.
#[must_use]
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// JSON merge patch (RFC 7396): objects merge, `null` deletes, everything else replaces.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = if target.is_object() { patch.clone() } else { without_nulls(patch) };
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// What a merge patch puts where nothing was: no `null` is left in any object of it, those in lists included.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}
