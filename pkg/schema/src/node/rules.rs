//! Validation rules of a node, kept apart because most nodes have none.

use std::sync::OnceLock;

use regex_lite::Regex;
use serde_json::Value;

use super::NodeId;

/// Value validations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    /// Lower bound and whether it is exclusive.
    pub minimum: Option<(f64, bool)>,
    /// Upper bound and whether it is exclusive.
    pub maximum: Option<(f64, bool)>,
    /// The value must be a multiple of this.
    pub multiple_of: Option<f64>,
    /// Fewest characters of a string.
    pub min_length: Option<u64>,
    /// Most characters of a string.
    pub max_length: Option<u64>,
    /// Must match somewhere in a string.
    pub pattern: Option<Pattern>,
    /// Fewest items of a list.
    pub min_items: Option<u64>,
    /// Most items of a list.
    pub max_items: Option<u64>,
    /// Fewest properties of an object.
    pub min_properties: Option<u64>,
    /// Most properties of an object.
    pub max_properties: Option<u64>,
    /// Properties that must be there.
    pub required: Vec<String>,
    /// Allowed values, in the order of the schema.
    pub enumeration: Vec<Value>,
    /// Name of the format, when it is one that is checked.
    pub format: Option<String>,
    /// `x-kubernetes-validations` as written.
    pub validations: Vec<Value>,
    /// Value validations below `allOf`, `anyOf`, `oneOf` and `not`.
    pub(crate) logic: Logic,
}

/// The logical junctors of a schema.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Logic {
    /// All must hold.
    pub(crate) all_of: Vec<NodeId>,
    /// At least one must hold.
    pub(crate) any_of: Vec<NodeId>,
    /// Exactly one must hold.
    pub(crate) one_of: Vec<NodeId>,
    /// Must not hold.
    pub(crate) not: Option<NodeId>,
}

/// A regular expression, compiled at first use: most are never used.
#[derive(Debug, Clone, Default)]
pub struct Pattern {
    text: String,
    compiled: OnceLock<Option<Regex>>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Pattern {
    /// A pattern in RE2 syntax.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), compiled: OnceLock::new() }
    }

    /// The expression as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it matches somewhere in `value`; none when the expression is malformed.
    #[must_use]
    pub fn matches(&self, value: &str) -> Option<bool> {
        let compiled = self.compiled.get_or_init(|| Regex::new(&self.text).ok());
        compiled.as_ref().map(|regex| regex.is_match(value))
    }

    /// Why the expression is malformed, if it is.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        Regex::new(&self.text).err().map(|error| error.to_string())
    }
}
