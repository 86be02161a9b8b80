//! Scopes: which objects a quota is about.

use serde_json::Value;

/// One requirement of a quota's scopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Such as `BestEffort`.
    pub scope: String,
    /// `Exists`, `DoesNotExist`, `In`, `NotIn`.
    pub operator: String,
    /// Values of `In` and `NotIn`.
    pub values: Vec<String>,
}

impl Term {
    /// The terms of a quota: its `scopes`, then its `scopeSelector`.
    #[must_use]
    pub fn of_quota(quota: &Value) -> Vec<Self> {
        let list = |path: &str| quota.pointer(path).and_then(Value::as_array).into_iter().flatten();
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let plain = list("/spec/scopes").filter_map(Value::as_str).map(|scope| Self {
            scope: scope.to_owned(),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        });
        let selected = list("/spec/scopeSelector/matchExpressions").map(|term| Self {
            scope: text(term, "scopeName"),
            operator: text(term, "operator"),
            values: term["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|v| v.as_str().map(str::to_owned))
                .collect(),
        });
        plain.chain(selected).collect()
    }

    /// Whether one of the object's `names` (or, without any, their absence) meets the term.
    pub(crate) fn names(&self, names: &[&str]) -> bool {
        let listed = |name: &&str| self.values.iter().any(|value| value == name);
        match self.operator.as_str() {
            "Exists" => !names.is_empty(),
            "DoesNotExist" => names.is_empty(),
            "In" => names.iter().any(&listed),
            "NotIn" => names.is_empty() || names.iter().any(|name| !listed(name)),
            _ => false,
        }
    }
}
