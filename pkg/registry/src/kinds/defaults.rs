//! Functional defaults as data: trees of [`Rule`]s and the one walker that applies them.
//!
//! The rules are upstream's `SetDefaults_*` functions and generated defaulters. Only what depends on other fields is
//! code, hung into the tree with [`Rule::Run`].

use copepod_api::Quantity;
use serde_json::{Map, Value};

/// A JSON map.
pub(crate) type Object = Map<String, Value>;

/// A default value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lit {
    /// A string.
    S(&'static str),
    /// An integer.
    I(i64),
    /// A boolean.
    B(bool),
    /// An empty map.
    Map,
}

impl Lit {
    fn value(self) -> Value {
        match self {
            Self::S(s) => s.into(),
            Self::I(i) => i.into(),
            Self::B(b) => b.into(),
            Self::Map => Object::new().into(),
        }
    }
}

/// One step of defaulting, applied to a map.
#[derive(Debug)]
pub(crate) enum Rule {
    /// The field gets the value when absent, empty or zero: Go holds it by value.
    Zero(&'static str, Lit),
    /// The field gets the value when absent: Go holds it behind a pointer.
    Nil(&'static str, Lit),
    /// The rules apply to each of the fields that is a map.
    In(&'static [&'static str], &'static [Self]),
    /// The rules apply to each item of each of the fields that is a list.
    Each(&'static [&'static str], &'static [Self]),
    /// The fields are resource lists; amounts are rounded up to thousandths and written canonically.
    Amounts(&'static [&'static str]),
    /// Code.
    Run(fn(&mut Object)),
}

/// Applies rules to a map.
pub(crate) fn apply(rules: &[Rule], object: &mut Object) {
    for rule in rules {
        match rule {
            Rule::Zero(field, lit) => {
                if object.get(*field).is_none_or(is_zero) {
                    object.insert((*field).to_owned(), lit.value());
                }
            }
            Rule::Nil(field, lit) => {
                if object.get(*field).is_none_or(Value::is_null) {
                    object.insert((*field).to_owned(), lit.value());
                }
            }
            Rule::In(fields, rules) => {
                for field in *fields {
                    if let Some(Value::Object(child)) = object.get_mut(*field) {
                        apply(rules, child);
                    }
                }
            }
            Rule::Each(fields, rules) => {
                for field in *fields {
                    if let Some(Value::Array(list)) = object.get_mut(*field) {
                        list.iter_mut().filter_map(Value::as_object_mut).for_each(|item| apply(rules, item));
                    }
                }
            }
            Rule::Amounts(fields) => fields.iter().for_each(|field| round_amounts(object.get_mut(*field))),
            Rule::Run(code) => code(object),
        }
    }
}

/// Whether Go would hold the zero value.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
    }
}

fn round_amounts(list: Option<&mut Value>) {
    for amount in list.and_then(Value::as_object_mut).into_iter().flat_map(Object::values_mut) {
        let text = match &*amount {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => continue,
        };
        if let Ok(parsed) = text.parse::<Quantity>() {
            let rounded =
                if parsed.nanos() % 1_000_000 == 0 { parsed } else { Quantity::from_millis(parsed.millis()) };
            *amount = rounded.to_string().into();
        }
    }
}

/// The string at `field`, empty when absent.
pub(crate) fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Whether `field` is absent or null.
pub(crate) fn absent(object: &Object, field: &str) -> bool {
    object.get(field).is_none_or(Value::is_null)
}

/// The map at `field`, made when absent.
pub(crate) fn map_mut<'a>(object: &'a mut Object, field: &str) -> &'a mut Object {
    copepod_api::meta::child_mut(object, field)
}

/// Sets `field` when it is absent.
pub(crate) fn fill(object: &mut Object, field: &str, value: impl Into<Value>) {
    if absent(object, field) {
        object.insert(field.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_fill_what_is_missing_only() {
        const RULES: &[Rule] = &[
            Rule::Zero("a", Lit::S("x")),
            Rule::Nil("b", Lit::I(3)),
            Rule::Each(&["list"], &[Rule::Zero("protocol", Lit::S("TCP")), Rule::Amounts(&["limits"])]),
        ];
        let mut object =
            json!({"a": "", "b": 0, "list": [{"limits": {"cpu": "0.0005", "memory": "1024Mi"}}]});
        apply(RULES, object.as_object_mut().unwrap());
        assert_eq!(
            object,
            json!({"a": "x", "b": 0, "list": [
                {"limits": {"cpu": "1m", "memory": "1Gi"}, "protocol": "TCP"}]})
        );
    }
}
