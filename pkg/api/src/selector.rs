//! Label and field selectors (`k8s.io/apimachinery/pkg/labels`, `…/fields`).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

mod parse;

/// Why a selector cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Not a list of requirements.
    #[error("{0}")]
    Grammar(String),
    /// Not a requirement on a label.
    #[error("unable to parse requirement: {0}")]
    Label(String),
    /// Not a field selector.
    #[error("invalid selector: '{0}'; can't understand '{1}'")]
    Field(String, String),
    /// A value that is not escaped as values are.
    #[error("invalid field selector: {0}")]
    Value(String),
    /// An operator outside `In`, `NotIn`, `Exists`, `DoesNotExist`.
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
}

/// How a requirement tests a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// One of these values; `=` and `==` are a set of one.
    In(Vec<String>),
    /// Absent, or none of these values.
    NotIn(Vec<String>),
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// An integer above this one.
    Gt(i64),
    /// An integer below this one.
    Lt(i64),
}

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// What it must be.
    pub test: Test,
}

/// Where label values come from: JSON maps or plain maps.
pub trait Labels {
    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for Map<String, Value> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }
}

impl Labels for std::collections::BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl<L: Labels> Labels for Option<L> {
    fn label(&self, key: &str) -> Option<&str> {
        self.as_ref().and_then(|l| l.label(key))
    }
}

impl<L: Labels + ?Sized> Labels for &L {
    fn label(&self, key: &str) -> Option<&str> {
        (*self).label(key)
    }
}

impl Requirement {
    /// Whether `labels` meet it.
    #[must_use]
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let value = labels.label(&self.key);
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|v| values.iter().any(|w| w == v)),
            Test::NotIn(values) => value.is_none_or(|v| values.iter().all(|w| w != v)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::Gt(bound) => number().is_some_and(|n| n > *bound),
            Test::Lt(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

/// A label selector: all requirements hold. The empty selector matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    /// The requirements, sorted by key.
    pub requirements: Vec<Requirement>,
    /// Whether nothing matches at all (a nil selector object).
    pub nothing: bool,
}

/// The `matchExpressions` item of a selector object.
#[derive(Debug, Clone, Serialize, Deserialize, Default)]
#[serde(default)]
struct Expression {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl LabelSelector {
    /// Everything.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Parses the query form: `a=b,c!=d,e in (f,g),!h,i`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = parse::requirements(text)?;
        requirements.sort_by(|a: &Requirement, b| a.key.cmp(&b.key));
        Ok(Self { requirements, nothing: false })
    }

    /// Reads a selector object (`matchLabels`, `matchExpressions`); null or absent selects nothing.
    pub fn from_object(selector: Option<&Value>) -> Result<Self, SelectorError> {
        let Some(selector) = selector.filter(|s| !s.is_null()) else { return Ok(Self::nothing()) };
        let mut requirements = Self::from_map(selector.get("matchLabels")).requirements;
        for item in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let e = Expression::deserialize(item).map_err(|e| SelectorError::Label(e.to_string()))?;
            let test = match e.operator.as_str() {
                "In" => Test::In(e.values),
                "NotIn" => Test::NotIn(e.values),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::DoesNotExist,
                other => return Err(SelectorError::Operator(other.to_owned())),
            };
            requirements.push(Requirement { key: e.key, test });
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements, nothing: false })
    }

    /// Reads a plain map of labels, as a Service's selector is; absent is empty.
    #[must_use]
    pub fn from_map(map: Option<&Value>) -> Self {
        let entries = map.and_then(Value::as_object).into_iter().flatten();
        let requirements = entries
            .map(|(k, v)| Requirement {
                key: k.clone(),
                test: Test::In(vec![v.as_str().unwrap_or_default().to_owned()]),
            })
            .collect();
        Self { requirements, nothing: false }
    }

    /// Whether it matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Whether `labels` meet every requirement.
    #[must_use]
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(labels))
    }
}

/// The query form.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Requirement { key, test }) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::In(v) if v.len() == 1 => write!(f, "{key}={}", v.concat())?,
                Test::In(v) => write!(f, "{key} in ({})", v.join(","))?,
                Test::NotIn(v) if v.len() == 1 => write!(f, "{key}!={}", v.concat())?,
                Test::NotIn(v) => write!(f, "{key} notin ({})", v.join(","))?,
                Test::Exists => f.write_str(key)?,
                Test::DoesNotExist => write!(f, "!{key}")?,
                Test::Gt(n) => write!(f, "{key}>{n}")?,
                Test::Lt(n) => write!(f, "{key}<{n}")?,
            }
        }
        Ok(())
    }
}

/// One term of a field selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field's label, such as `spec.nodeName`.
    pub field: String,
    /// The value.
    pub value: String,
    /// `=` or `!=`.
    pub equal: bool,
}

/// A field selector: all terms hold. The empty selector matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    /// The terms in the order given.
    pub terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// Parses `a=b,c!=d`; `\` escapes `\`, `,` and `=` in values.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split_unescaped(text).iter().filter(|p| !p.is_empty()) {
            let split = part
                .split_once("!=")
                .map(|(f, v)| (f, v, false))
                .or_else(|| part.split_once("==").map(|(f, v)| (f, v, true)))
                .or_else(|| part.split_once('=').map(|(f, v)| (f, v, true)));
            let Some((field, value, equal)) = split else {
                return Err(SelectorError::Field(text.to_owned(), part.clone()));
            };
            terms.push(FieldTerm { field: field.to_owned(), value: unescape(value)?, equal });
        }
        Ok(Self { terms })
    }

    /// Whether it matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value a field must equal, when there is such a term.
    #[must_use]
    pub fn required(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| t.equal && t.field == field).map(|t| t.value.as_str())
    }

    /// Whether every term holds; `lookup` gives a field's value, empty when absent.
    pub fn matches<'a>(&self, mut lookup: impl FnMut(&str) -> &'a str) -> bool {
        self.terms.iter().all(|t| (lookup(&t.field) == t.value) == t.equal)
    }
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    parts
}

fn unescape(text: &str) -> Result<String, SelectorError> {
    let wrong = |why: String| Err(SelectorError::Value(why));
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(other) => return wrong(format!("invalid escape sequence: \\{other}")),
                None => return wrong("invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => return wrong(format!("unescaped character in value: {}", u32::from(c))),
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hit(selector: &str, labels: &Value) -> bool {
        LabelSelector::parse(selector).unwrap().matches(labels.as_object().unwrap())
    }

    #[test]
    fn label_selectors() {
        let labels = json!({"app": "web", "n": "5"});
        for yes in [
            "",
            "app=web",
            "app==web",
            "app in (web, db)",
            "x!=1",
            "!x",
            "app",
            "x notin (a)",
            "n>4",
            "n<6,app",
        ] {
            assert!(hit(yes, &labels), "{yes}");
        }
        for no in ["app=db", "!app", "x", "app notin (web)", "n>5", "app=web,x"] {
            assert!(!hit(no, &labels), "{no}");
        }
        assert!(LabelSelector::parse("a in (b").is_err());
        assert!(LabelSelector::parse("a b=c").is_err());
        assert_eq!(LabelSelector::parse("b in (1,2),a=3").unwrap().to_string(), "a=3,b in (1,2)");
    }

    #[test]
    fn selector_objects() {
        let selector =
            json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]});
        let selector = LabelSelector::from_object(Some(&selector)).unwrap();
        assert!(selector.matches(json!({"a": "1", "b": ""}).as_object().unwrap()));
        assert!(!selector.matches(json!({"a": "1"}).as_object().unwrap()));
        assert!(!LabelSelector::from_object(None).unwrap().matches(&Map::new()));
        assert!(LabelSelector::from_object(Some(&json!({}))).unwrap().matches(&Map::new()));
    }

    #[test]
    fn field_selectors() {
        let s = FieldSelector::parse(r"metadata.name=a\,b,status.phase!=Running").unwrap();
        assert_eq!(s.required("metadata.name"), Some("a,b"));
        assert!(s.matches(|f| if f == "metadata.name" { "a,b" } else { "" }));
        assert!(FieldSelector::parse("nonsense").is_err());
    }
}
