//! Selectors over node labels, and what affinity terms select.

use std::collections::BTreeMap;

use copepod_api::LabelSelector;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// A label selector object, read once.
#[derive(Debug, Clone)]
pub struct Selector(pub LabelSelector);

impl Default for Selector {
    /// A selector that is absent selects nothing.
    fn default() -> Self {
        Self(LabelSelector::nothing())
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<Value>::deserialize(deserializer)?;
        LabelSelector::from_object(value.as_ref()).map(Self).map_err(serde::de::Error::custom)
    }
}

/// One requirement on a node's labels or fields.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let compare = |test: fn(&i64, &i64) -> bool| {
            let bound = self.values.first().and_then(|v| number(v));
            value.and_then(number).zip(bound).is_some_and(|(v, bound)| test(&v, &bound))
        };
        let named = || value.is_some_and(|v| self.values.iter().any(|w| w == v));
        match self.operator.as_str() {
            "In" => named(),
            "NotIn" => !named(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => compare(i64::gt),
            "Lt" => compare(i64::lt),
            _ => false,
        }
    }
}

/// A term of node affinity: all its requirements hold; without any it matches no node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTerm {
    match_expressions: Vec<Requirement>,
    match_fields: Vec<Requirement>,
}

impl NodeTerm {
    /// Whether the node called `name` with `labels` matches.
    #[must_use]
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        if self.match_expressions.is_empty() && self.match_fields.is_empty() {
            return false;
        }
        let label = |r: &Requirement| r.matches(labels.get(&r.key).map(String::as_str));
        let field = |r: &Requirement| r.matches((r.key == "metadata.name").then_some(name));
        self.match_expressions.iter().all(label) && self.match_fields.iter().all(field)
    }
}

/// Terms of which one must match.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The terms.
    pub node_selector_terms: Vec<NodeTerm>,
}

/// A term with the weight of its match.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Weighted<T> {
    /// 1 to 100.
    pub weight: i64,
    /// The term.
    #[serde(alias = "podAffinityTerm")]
    pub preference: T,
}

/// Which pods, counted by which topology.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTerm {
    label_selector: Option<Selector>,
    namespaces: Vec<String>,
    namespace_selector: Option<Selector>,
    /// Node label whose value makes nodes one place.
    pub topology_key: String,
    match_label_keys: Vec<String>,
    mismatch_label_keys: Vec<String>,
}

impl PodTerm {
    /// Whether a pod with `labels` in `namespace` is meant by this term of a pod that lives in `own_namespace` and
    /// carries `own_labels`. `namespace_labels` looks up the labels of a namespace.
    pub fn matches(
        &self,
        own: (&str, &Labels),
        other: (&str, &Labels),
        namespace_labels: &dyn Fn(&str) -> Option<Labels>,
    ) -> bool {
        let (namespace, labels) = other;
        let here = if self.namespaces.is_empty() && self.namespace_selector.is_none() {
            namespace == own.0
        } else {
            self.namespaces.iter().any(|n| n == namespace)
                || self.namespace_selector.as_ref().is_some_and(|selector| {
                    selector.0.is_empty()
                        || namespace_labels(namespace).is_some_and(|l| selector.0.matches(&l))
                })
        };
        let same = |key: &String| own.1.get(key).is_none_or(|v| labels.get(key) == Some(v));
        let differs = |key: &String| own.1.get(key).is_none_or(|v| labels.get(key) != Some(v));
        here && self.label_selector.as_ref().is_some_and(|s| s.0.matches(labels))
            && self.match_label_keys.iter().all(same)
            && self.mismatch_label_keys.iter().all(differs)
    }
}

/// Required and preferred terms.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound(deserialize = "R: Deserialize<'de> + Default, P: Deserialize<'de> + Default")
)]
pub struct Terms<R, P> {
    /// Must hold when the pod is placed.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: R,
    /// Should hold.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Vec<Weighted<P>>,
}

impl<R: Default, P> Default for Terms<R, P> {
    fn default() -> Self {
        Self { required: R::default(), preferred: Vec::new() }
    }
}

/// A pod's `affinity`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// To nodes.
    pub node_affinity: Terms<Option<NodeSelector>, NodeTerm>,
    /// To pods.
    pub pod_affinity: Terms<Vec<PodTerm>, PodTerm>,
    /// Away from pods.
    pub pod_anti_affinity: Terms<Vec<PodTerm>, PodTerm>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn node_terms_read_labels_and_the_name() {
        let labels =
            Labels::from([("zone".to_owned(), "a".to_owned()), ("size".to_owned(), "12".to_owned())]);
        let check = |term: Value, name: &str| {
            serde_json::from_value::<NodeTerm>(term).unwrap().matches(name, &labels)
        };
        assert!(check(
            json!({"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["9"]}]}),
            "n"
        ));
        assert!(!check(
            json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}),
            "n"
        ));
        let field = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]});
        assert!(check(field.clone(), "n") && !check(field, "m"));
        assert!(!check(json!({}), "n"), "an empty term matches nothing");
    }
}
