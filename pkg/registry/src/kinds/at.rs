//! A place in an object under validation: a value, its path, and the list errors go to.
//!
//! Checks read like a table: `spec.get("replicas").min(0)`. A check on an absent value passes, unless it asks for
//! presence. Texts are those of `k8s.io/apimachinery/pkg/api/validate` and its siblings.

use std::cell::RefCell;

use copepod_api::{FieldError, FieldErrors, FieldPath};
use serde_json::{Map, Value};

/// One place in an object.
#[derive(Debug, Clone)]
pub(crate) struct At<'a> {
    value: Option<&'a Value>,
    path: FieldPath,
    sink: &'a RefCell<FieldErrors>,
}

impl<'a> At<'a> {
    /// The object itself.
    pub(crate) fn root(value: &'a Value, sink: &'a RefCell<FieldErrors>) -> Self {
        Self { value: Some(value), path: FieldPath::root(), sink }
    }

    /// The same place holding another value.
    pub(crate) fn with(&self, value: Option<&'a Value>) -> Self {
        Self { value: value.filter(|v| !v.is_null()), path: self.path.clone(), sink: self.sink }
    }

    /// The same value under another path.
    pub(crate) fn named(&self, path: FieldPath) -> Self {
        Self { value: self.value, path, sink: self.sink }
    }

    /// This path with another place's value, for errors that upstream files under a neighbour.
    pub(crate) fn holding(&self, other: &Self) -> Self {
        Self { value: other.value, path: self.path.clone(), sink: self.sink }
    }

    /// Runs checks on a value that lives no longer than they do, at this path.
    pub(crate) fn borrowing(&self, value: &Value, checks: impl FnOnce(&At<'_>)) {
        let sink = RefCell::default();
        checks(&At { value: Some(value), path: self.path.clone(), sink: &sink });
        self.sink.borrow_mut().extend(sink.into_inner());
    }

    /// The value is malformed in a way that its text would not show.
    pub(crate) fn invalid_hidden(&self, detail: &str) {
        let mut error = FieldError::invalid(&self.path, Value::Null, detail);
        error.value = None;
        self.push(error);
    }

    /// The field `name`.
    pub(crate) fn get(&self, name: &str) -> Self {
        let value = self.value.and_then(|v| v.get(name)).filter(|v| !v.is_null());
        Self { value, path: self.path.child(name), sink: self.sink }
    }

    /// The field at a path of names joined by dots.
    pub(crate) fn at(&self, path: &str) -> Self {
        path.split('.').fold(self.clone(), |at, name| at.get(name))
    }

    /// The entry `key` of a map.
    pub(crate) fn key(&self, key: &str) -> Self {
        let value = self.value.and_then(|v| v.get(key)).filter(|v| !v.is_null());
        Self { value, path: self.path.key(key), sink: self.sink }
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> impl Iterator<Item = Self> + use<'a> {
        let at = self.clone();
        self.array().iter().enumerate().map(move |(i, v)| Self {
            value: Some(v).filter(|v| !v.is_null()),
            path: at.path.index(i),
            sink: at.sink,
        })
    }

    /// The entries of a map, in key order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        let at = self.clone();
        self.value.and_then(Value::as_object).into_iter().flatten().map(move |(k, v)| {
            let place = Self { value: Some(v).filter(|v| !v.is_null()), path: at.path.key(k), sink: at.sink };
            (k.as_str(), place)
        })
    }

    /// The value, when there is one.
    pub(crate) fn value(&self) -> Option<&'a Value> {
        self.value
    }

    /// The path.
    pub(crate) fn path(&self) -> &FieldPath {
        &self.path
    }

    /// Whether there is a value.
    pub(crate) fn present(&self) -> bool {
        self.value.is_some()
    }

    /// Whether there is no value, or an empty string, list or map.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            None => true,
            Some(Value::String(s)) => s.is_empty(),
            Some(Value::Array(a)) => a.is_empty(),
            Some(Value::Object(o)) => o.is_empty(),
            Some(_) => false,
        }
    }

    /// The string, empty when absent.
    pub(crate) fn str(&self) -> &'a str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    /// The integer.
    pub(crate) fn int(&self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    /// The boolean, `false` when absent.
    pub(crate) fn bool(&self) -> bool {
        self.value.and_then(Value::as_bool).unwrap_or(false)
    }

    /// The list, empty when absent.
    pub(crate) fn array(&self) -> &'a [Value] {
        self.value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// The strings of a list.
    pub(crate) fn strings(&self) -> Vec<&'a str> {
        self.array().iter().filter_map(Value::as_str).collect()
    }

    /// The map, when there is one.
    pub(crate) fn map(&self) -> Option<&'a Map<String, Value>> {
        self.value.and_then(Value::as_object)
    }

    /// Whether the field `name` holds this string.
    pub(crate) fn is(&self, name: &str, text: &str) -> bool {
        self.get(name).str() == text
    }

    /// Adds an error.
    pub(crate) fn push(&self, error: FieldError) {
        self.sink.borrow_mut().push(error);
    }

    /// How many errors there are so far.
    pub(crate) fn errors(&self) -> usize {
        self.sink.borrow().len()
    }

    fn shown(&self) -> Value {
        self.value.cloned().unwrap_or(Value::String(String::new()))
    }

    /// The value is missing.
    pub(crate) fn required(&self, detail: &str) {
        self.push(FieldError::required(&self.path, detail));
    }

    /// The value is malformed.
    pub(crate) fn invalid(&self, detail: impl Into<String>) {
        self.push(FieldError::invalid(&self.path, self.shown(), detail));
    }

    /// The value is malformed; `shown` is what the error shows.
    pub(crate) fn invalid_as(&self, shown: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldError::invalid(&self.path, shown, detail));
    }

    /// A value is malformed that the error places somewhere else.
    pub(crate) fn invalid_at(&self, path: &str, shown: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldError::invalid(&FieldPath::new(path), shown, detail));
    }

    /// The value may not stand here.
    pub(crate) fn forbidden(&self, detail: impl Into<String>) {
        self.push(FieldError::forbidden(&self.path, detail));
    }

    /// The value occurs twice.
    pub(crate) fn duplicate(&self) {
        self.push(FieldError::duplicate(&self.path, self.shown()));
    }

    /// The value refers to nothing.
    pub(crate) fn not_found(&self) {
        self.push(FieldError::not_found(&self.path, self.shown()));
    }

    /// The value is none of `supported`.
    pub(crate) fn not_supported(&self, supported: &[&str]) {
        self.push(FieldError::not_supported(&self.path, self.shown(), supported));
    }

    /// Each text is one error about the value.
    pub(crate) fn invalid_all(&self, texts: impl IntoIterator<Item = String>) {
        for text in texts {
            self.invalid(text);
        }
    }

    /// Wants a value that is not empty; tells whether there is one.
    pub(crate) fn need(&self) -> bool {
        self.need_because("")
    }

    /// The same with a reason.
    pub(crate) fn need_because(&self, detail: &str) -> bool {
        if self.is_empty() {
            self.required(detail);
            return false;
        }
        true
    }

    /// Wants one of `supported` (sorted as upstream lists them), when there is a value.
    pub(crate) fn one_of(&self, supported: &[&str]) {
        if self.present() && !supported.contains(&self.str()) {
            self.not_supported(supported);
        }
    }

    /// Wants one of `supported`; absence is an error of its own.
    pub(crate) fn need_one_of(&self, supported: &[&str]) {
        if self.need() {
            self.one_of(supported);
        }
    }

    /// Wants a number that is not negative, when there is one.
    pub(crate) fn not_negative(&self) {
        self.min(0);
    }

    /// Wants at least `min`, when there is a number.
    pub(crate) fn min(&self, min: i64) {
        if self.int().is_some_and(|n| n < min) {
            self.invalid(format!("must be greater than or equal to {min}"));
        }
    }

    /// Wants a number above zero, when there is one.
    pub(crate) fn positive(&self) {
        if self.int().is_some_and(|n| n <= 0) {
            self.invalid("must be greater than zero");
        }
    }

    /// Wants a number within bounds, when there is one.
    pub(crate) fn range(&self, min: i64, max: i64) {
        if self.int().is_some_and(|n| n < min || n > max) {
            self.invalid(format!("must be between {min} and {max}, inclusive"));
        }
    }

    /// Checks the string with one of `copepod_api::names`, when there is one.
    pub(crate) fn text(&self, check: fn(&str) -> Vec<String>) {
        if self.present() {
            self.invalid_all(check(self.str()));
        }
    }

    /// Wants no change of the value; the error does not show it, as upstream's generated checks do not.
    pub(crate) fn fixed(&self, old: &Self) {
        if !same(self.value, old.value) {
            self.invalid_as(Value::Null, "field is immutable");
        }
    }

    /// Wants no change of the value.
    pub(crate) fn immutable(&self, old: &Self) {
        if !same(self.value, old.value) {
            self.invalid("field is immutable");
        }
    }
}

/// Whether two values mean the same: absence, emptiness and zero are equal, as in upstream's semantic equality of
/// Go structs.
pub(crate) fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.iter().all(|(k, v)| same(Some(v), b.get(k)))
                && b.iter().all(|(k, v)| a.contains_key(k) || same(None, Some(v)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (Some(a), Some(b)) => a == b,
        (Some(v), None) | (None, Some(v)) => blank(v),
        (None, None) => true,
    }
}

/// Whether a value is null or empty. Zeros and `false` behind pointers differ from absence, so they are not blank.
fn blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.values().all(blank),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn checks_collect_errors_with_paths() {
        let object = json!({"spec": {"replicas": -1, "policy": "Bad", "list": [{"name": ""}]}});
        let sink = RefCell::default();
        let spec = At::root(&object, &sink).get("spec");
        spec.get("replicas").not_negative();
        spec.get("policy").one_of(&["A", "B"]);
        for item in spec.get("list").items() {
            item.get("name").need();
        }
        spec.get("absent").positive();
        let texts: Vec<String> = sink.take().iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                r#"spec.policy: Unsupported value: "Bad": supported values: "A", "B""#,
                "spec.list[0].name: Required value",
            ]
        );
    }

    #[test]
    fn empty_means_absent() {
        assert!(same(Some(&json!({"a": {}, "b": 1})), Some(&json!({"b": 1, "c": ""}))));
        assert!(!same(Some(&json!({"a": 0})), Some(&json!({}))));
    }
}
