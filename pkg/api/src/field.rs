//! Validation errors that name a field, with upstream's types and texts
//! (`k8s.io/apimachinery/pkg/util/validation/field`).

use std::fmt;

use serde_json::Value;

/// A path to a field: `spec.containers[0].name`, `metadata.labels[a/b]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FieldPath(String);

impl FieldPath {
    /// A path of one field.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The empty path, the object itself.
    #[must_use]
    pub fn root() -> Self {
        Self(String::new())
    }

    /// The path of a field below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// The path of a list item.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The path of a map entry.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The path `inner` below this one.
    #[must_use]
    pub fn join(&self, inner: &Self) -> Self {
        match (self.0.is_empty(), inner.0.is_empty()) {
            (true, _) => inner.clone(),
            (_, true) => self.clone(),
            _ if inner.0.starts_with('[') => Self(format!("{}{}", self.0, inner.0)),
            _ => Self(format!("{}.{}", self.0, inner.0)),
        }
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The root path prints as `<nil>`, as upstream's nil path does.
impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// What is wrong with a field; [`ErrorType::reason`] is the machine-readable form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are upstream's and each is a plain word")]
pub enum ErrorType {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TooFew,
    Internal,
    TypeInvalid,
    TooShort,
}

impl ErrorType {
    /// The `reason` of a status cause.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooShort => "FieldValueTooShort",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
            Self::TooShort => "Too short",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal)
    }
}

/// One error about one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// What is wrong.
    pub kind: ErrorType,
    /// The field.
    pub field: FieldPath,
    /// The offending value; `None` prints no value.
    pub value: Option<Value>,
    /// What would be right; may be empty.
    pub detail: String,
    /// The value as text, where its own order of fields is not to be seen.
    shown: Option<String>,
}

impl FieldError {
    fn new(kind: ErrorType, field: &FieldPath, value: Option<Value>, detail: impl Into<String>) -> Self {
        Self { kind, field: field.clone(), value, detail: detail.into(), shown: None }
    }

    /// The same error, showing its value as `text`.
    #[must_use]
    pub fn showing(mut self, text: String) -> Self {
        self.shown = Some(text);
        self
    }

    /// A malformed value.
    pub fn invalid(field: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Invalid, field, Some(value.into()), detail)
    }

    /// A value of the wrong type.
    pub fn type_invalid(field: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::TypeInvalid, field, Some(value.into()), detail)
    }

    /// A missing value.
    pub fn required(field: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Required, field, None, detail)
    }

    /// A value that may not stand here.
    pub fn forbidden(field: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Forbidden, field, None, detail)
    }

    /// A value that must be unique and is not.
    pub fn duplicate(field: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(ErrorType::Duplicate, field, Some(value.into()), "")
    }

    /// A reference to something that is not there.
    pub fn not_found(field: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(ErrorType::NotFound, field, Some(value.into()), "")
    }

    /// A value outside an enumeration; the supported values are listed in the order given.
    pub fn not_supported(field: &FieldPath, value: impl Into<Value>, supported: &[&str]) -> Self {
        let detail = if supported.is_empty() {
            String::new()
        } else {
            let quoted: Vec<String> = supported.iter().map(|v| quote(v)).collect();
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(ErrorType::NotSupported, field, Some(value.into()), detail)
    }

    /// A value of more than `max` bytes.
    #[must_use]
    pub fn too_long(field: &FieldPath, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(ErrorType::TooLong, field, None, format!("may not be more than {max} {unit}"))
    }

    /// A value of more than `max` characters.
    #[must_use]
    pub fn too_long_characters(field: &FieldPath, max: usize) -> Self {
        let unit = if max == 1 { "character" } else { "characters" };
        Self::new(ErrorType::TooLong, field, None, format!("may not be more than {max} {unit}"))
    }

    /// A list of more than `max` items.
    #[must_use]
    pub fn too_many(field: &FieldPath, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(ErrorType::TooMany, field, Some(actual.into()), format!("must have at most {max} {unit}"))
    }

    /// An error that is not the client's fault.
    pub fn internal(field: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Internal, field, None, detail)
    }

    /// The text without the field: a status cause's `message`.
    #[must_use]
    pub fn body(&self) -> String {
        let mut text = self.kind.text().to_owned();
        if let Some(value) = self.value.as_ref().filter(|_| self.kind.shows_value()) {
            text.push_str(": ");
            match (value, &self.shown) {
                (_, Some(shown)) => text.push_str(shown),
                (Value::String(s), None) => text.push_str(&quote(s)),
                (other, None) => text.push_str(&other.to_string()),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// All errors of one validation, in the order found.
pub type FieldErrors = Vec<FieldError>;

/// Quotes as Go's `%q` does for the texts that occur in errors.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_match_upstream() {
        let path = FieldPath::new("spec").child("containers").index(0).child("name");
        assert_eq!(FieldError::required(&path, "").to_string(), "spec.containers[0].name: Required value");
        assert_eq!(
            FieldError::invalid(&path, "A b", "must be lower case").to_string(),
            r#"spec.containers[0].name: Invalid value: "A b": must be lower case"#
        );
        assert_eq!(
            FieldError::not_supported(&path, "x", &["a", "b"]).to_string(),
            r#"spec.containers[0].name: Unsupported value: "x": supported values: "a", "b""#
        );
        assert_eq!(
            FieldError::invalid(&path, -1, "must be positive").body(),
            "Invalid value: -1: must be positive"
        );
        assert_eq!(FieldPath::new("metadata").child("labels").key("a/b").as_str(), "metadata.labels[a/b]");
    }
}
