//! Whether a pod template may run on a node: selectors, affinity and taints, as far as DaemonSets must know.

use copepod_api::selector::{Requirement, Test};
use serde::Deserialize;
use serde_json::Value;

use crate::views::{Node, Taint, Toleration};

/// Whether the template's node selector and required node affinity allow the node.
pub(crate) fn selects(template: &Value, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    let selector = template.pointer("/spec/nodeSelector").and_then(Value::as_object);
    let plain =
        selector.is_none_or(|s| s.iter().all(|(k, v)| labels.get(k).map(String::as_str) == v.as_str()));
    let terms = template
        .pointer(
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
        )
        .and_then(Value::as_array);
    plain && terms.is_none_or(|terms| terms.iter().any(|term| term_matches(term, node)))
}

fn term_matches(term: &Value, node: &Node) -> bool {
    let list = |field: &str| term.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let name = std::collections::BTreeMap::from([("metadata.name".to_owned(), node.metadata.name.clone())]);
    expressions.iter().all(|e| requirement(e).is_some_and(|r| r.matches(&node.metadata.labels)))
        && fields.iter().all(|e| requirement(e).is_some_and(|r| r.matches(&name)))
}

fn requirement(expression: &Value) -> Option<Requirement> {
    let key = expression.get("key")?.as_str()?.to_owned();
    let values: Vec<String> =
        expression.get("values").map_or(Some(Vec::new()), |v| Deserialize::deserialize(v).ok())?;
    let number = || values.first().and_then(|v| v.parse().ok());
    let test = match expression.get("operator")?.as_str()? {
        "In" => Test::In(values),
        "NotIn" => Test::NotIn(values),
        "Exists" => Test::Exists,
        "DoesNotExist" => Test::DoesNotExist,
        "Gt" => Test::Gt(number()?),
        "Lt" => Test::Lt(number()?),
        _ => return None,
    };
    Some(Requirement { key, test })
}

/// Whether the tolerations bear all taints with one of the effects.
pub(crate) fn tolerates(tolerations: &[Toleration], taints: &[Taint], effects: &[&str]) -> bool {
    let hard = taints.iter().filter(|t| effects.contains(&t.effect.as_str()));
    hard.into_iter().all(|taint| tolerations.iter().any(|t| t.bears(taint)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn affinity_is_read_as_the_scheduler_reads_it() {
        let node: Node = serde_json::from_value(
            json!({"metadata": {"name": "n", "labels": {"disk": "ssd", "cpus": "8"}}}),
        )
        .unwrap();
        let affinity = |terms: Value| {
            let required =
                json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
            json!({"spec": {"affinity": {"nodeAffinity": required}}})
        };
        let by = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        assert!(selects(&json!({"spec": {"nodeSelector": {"disk": "ssd"}}}), &node));
        assert!(!selects(&json!({"spec": {"nodeSelector": {"disk": "hdd"}}}), &node));
        assert!(selects(&affinity(json!([by("disk", "In", &["hdd"]), by("cpus", "Gt", &["4"])])), &node));
        assert!(!selects(&affinity(json!([by("cpus", "Lt", &["4"])])), &node));
        let name = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]});
        assert!(selects(&affinity(json!([name])), &node));
        assert!(!selects(&affinity(json!([{}])), &node));
    }
}
