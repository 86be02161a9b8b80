//! Request bodies to trees, with upstream's strict-decoding semantics.
//!
//! One pass over the body, driven by the schema: unknown fields are dropped and remembered, duplicate fields are
//! remembered, types are checked and scalars brought to canonical form. For nodes of built-in types a wrong type is
//! an error with the text Go's decoder gives; for nodes of custom resources types are left to validation, as
//! upstream does. The first type error wins; a syntax error anywhere wins over it.

use std::fmt;

use copepod_api::{ApiError, GroupVersionKind, status::Reason};
use serde::de::DeserializeSeed as _;
use serde_json::Value;

use crate::{canonical, node::SchemaRef};

mod head;
mod visit;
mod yaml;
mod yaml_error;

pub use head::TypeMeta;
use visit::{Context, Seed};
pub use yaml::{Yaml, yaml};

/// What to do about unknown and duplicate fields (the `fieldValidation` parameter).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them and return a warning for each. The default of the API.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

impl FieldValidation {
    /// Parses the query parameter; empty is the default. `None` for any other word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Ignore" => Some(Self::Ignore),
            "" | "Warn" => Some(Self::Warn),
            "Strict" => Some(Self::Strict),
            _ => None,
        }
    }
}

/// A decoded object.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The object: pruned, in canonical form.
    pub object: Value,
    /// Strict-decoding complaints such as `unknown field "spec.foo"`; to be sent as warnings. Empty under
    /// [`FieldValidation::Ignore`].
    pub warnings: Vec<String>,
}

/// Why a body could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// Not JSON (or YAML) at all.
    Syntax(String),
    /// A value does not fit its field.
    Type(String),
    /// Unknown or duplicate fields under [`FieldValidation::Strict`].
    Strict(Vec<String>),
}

impl std::error::Error for DecodeError {}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(text) | Self::Type(text) => f.write_str(text),
            Self::Strict(errors) => write!(f, "strict decoding error: {}", errors.join(", ")),
        }
    }
}

impl DecodeError {
    /// The 400 upstream answers when the body was meant to be a `kind`.
    #[must_use]
    pub fn to_api_error(&self, gvk: &GroupVersionKind) -> ApiError {
        let GroupVersionKind { version, kind, .. } = gvk;
        let text = match self {
            Self::Syntax(text) => {
                format!("the object provided is unrecognized (must be of type {kind}): {text}")
            }
            Self::Type(_) | Self::Strict(_) => {
                format!("{kind} in version {version:?} cannot be handled as a {kind}: {self}")
            }
        };
        ApiError::new(Reason::BadRequest, text)
    }
}

/// Decodes a JSON body.
///
/// # Errors
/// Malformed JSON, a value of the wrong type, or strict-decoding complaints under [`FieldValidation::Strict`].
pub fn decode(
    body: &[u8],
    schema: SchemaRef<'_>,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let mut context = Context::new(validation != FieldValidation::Ignore);
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = Seed::root(schema, &mut context).deserialize(&mut reader).and_then(|object| {
        reader.end()?;
        Ok(object)
    });
    let object = read.map_err(|error| DecodeError::Syntax(syntax_text(&error, body)))?;
    finish(object, schema, context, validation)
}

/// Decodes a parsed YAML body; keys given twice are complained of before all else.
///
/// # Errors
/// As [`decode`].
pub fn decode_yaml(
    parsed: &Yaml,
    schema: SchemaRef<'_>,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let duplicates = parsed.strict_error().filter(|_| validation != FieldValidation::Ignore);
    match (decode_value(&parsed.value, schema, validation), duplicates) {
        (Ok(decoded), None) => Ok(decoded),
        (Ok(_), Some(error)) if validation == FieldValidation::Strict => {
            Err(DecodeError::Strict(vec![error]))
        }
        (Ok(mut decoded), Some(error)) => {
            decoded.warnings.insert(0, error);
            Ok(decoded)
        }
        (Err(DecodeError::Strict(mut errors)), Some(error)) => {
            errors.insert(0, error);
            Err(DecodeError::Strict(errors))
        }
        (Err(error), _) => Err(error),
    }
}

/// Decodes a tree that was already parsed, such as the result of a patch. Duplicate fields cannot occur in it.
///
/// # Errors
/// As [`decode`], malformed JSON apart.
pub fn decode_value(
    value: &Value,
    schema: SchemaRef<'_>,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let mut context = Context::new(validation != FieldValidation::Ignore);
    let object = Seed::root(schema, &mut context)
        .deserialize(value)
        .map_err(|error| DecodeError::Syntax(error.to_string()))?;
    finish(object, schema, context, validation)
}

/// Parses JSON without a schema, naming duplicate fields; the error is Go's text.
pub(crate) fn untyped(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let mut context = Context::new(true);
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = Seed::untyped(&mut context).deserialize(&mut reader).and_then(|value| {
        reader.end()?;
        Ok(value)
    });
    let value = value.map_err(|error| syntax_text(&error, body))?;
    Ok((value, context.complaints))
}

fn finish(
    mut object: Value,
    schema: SchemaRef<'_>,
    mut context: Context,
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    if let Some(error) = context.type_error() {
        return Err(DecodeError::Type(error));
    }
    if !schema.is_typed() {
        // Custom objects are parsed first and pruned afterwards, in the order of the paths.
        context.complaints.sort_by_cached_key(|text| text.strip_prefix("unknown").map(str::to_owned));
    }
    if validation == FieldValidation::Strict && !context.complaints.is_empty() {
        return Err(DecodeError::Strict(context.complaints));
    }
    canonical::canonicalize(&mut object, schema);
    Ok(Decoded { object, warnings: context.complaints })
}

/// Go's words for a syntax error that `serde_json` found.
fn syntax_text(error: &serde_json::Error, body: &[u8]) -> String {
    copepod_api::json::error(body).unwrap_or_else(|| error.to_string())
}

#[cfg(test)]
mod tests;
