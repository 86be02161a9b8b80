//! Elements of paths to fields, their order and their two textual forms.

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Number, Value};

/// One step of a path. The order of the variants is the canonical order of a set.
#[derive(Debug, Clone, PartialEq)]
pub enum PathElement {
    /// A field of a struct or an entry of a map.
    Field(String),
    /// An item of a keyed list: key fields sorted by name.
    Key(Vec<(String, Value)>),
    /// An item of a set.
    Value(Value),
    /// An item of another list.
    Index(i64),
}

impl PathElement {
    /// A field.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Parses the form used in managed fields: `f:name`, `k:{"name":"a"}`, `v:1`, `i:0`.
    ///
    /// # Errors
    /// Text of another form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (type_, rest) = text.split_once(':').ok_or_else(|| format!("missing colon: {text}"))?;
        let json = |rest: &str| {
            serde_json::from_str::<Value>(rest).map_err(|error| format!("parsing {rest}: {error}"))
        };
        match type_ {
            "f" => Ok(Self::field(rest)),
            "k" => match json(rest)? {
                Value::Object(map) => Ok(Self::Key(map.into_iter().collect())),
                _ => Err(format!("parsing key as map: {rest}")),
            },
            "v" => Ok(Self::Value(json(rest)?)),
            "i" => rest.parse().map(Self::Index).map_err(|error| format!("parsing {rest}: {error}")),
            _ => Err(format!("unknown path element type {type_:?}")),
        }
    }

    /// The form used in managed fields.
    #[must_use]
    pub fn serialize(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let map: Map<String, Value> = fields.iter().cloned().collect();
                format!("k:{}", escape_html(&Value::Object(map).to_string()))
            }
            Self::Value(value) => format!("v:{}", escape_html(&value.to_string())),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

/// Go's encoder writes these characters as escapes inside strings, the only place they occur in JSON.
fn escape_html(json: &str) -> String {
    json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

/// The form used in messages: `.spec`, `[name="a"]`, `[="x"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Eq for PathElement {}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => compare_fields(a.iter(), b.iter()),
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PathElement {
    const fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

fn compare_fields<'v>(
    mut left: impl Iterator<Item = &'v (String, Value)>,
    mut right: impl Iterator<Item = &'v (String, Value)>,
) -> Ordering {
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some((a, x)), Some((b, y))) => a.cmp(b).then_with(|| compare(x, y)),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// The total order of JSON values: numbers, strings, booleans, lists, maps, null.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    };
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let first = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| *order != Ordering::Equal);
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let first = a.iter().zip(b).map(|((k, v), (l, w))| k.cmp(l).then_with(|| compare(v, w)));
            first.into_iter().find(|order| *order != Ordering::Equal).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (left.as_i64(), right.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => left.as_f64().unwrap_or(f64::MAX).total_cmp(&right.as_f64().unwrap_or(f64::MAX)),
    }
}

/// Equality of JSON values by value: 1 equals 1.0.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    compare(left, right) == Ordering::Equal
}
