//! LimitRanger: a namespace's LimitRanges give containers defaults and bound what they may ask for.

use async_trait::async_trait;
use copepod_api::{ApiResult, meta};
use copepod_registry::{Admission, Attributes, Operation};
use serde_json::{Map, Value, json};

use super::{Deps, forbid, items, limits, text};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

#[derive(Debug)]
pub(super) struct LimitRanger(pub Deps);

#[async_trait]
impl Admission for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        if attributes.resource.resource == "pods" && applies(attributes) {
            for range in self.ranges(attributes).await {
                set_defaults(object, &range);
            }
        }
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let Some(new) = object.filter(|_| applies(attributes)) else { return Ok(()) };
        for range in self.ranges(attributes).await {
            let errors = match attributes.resource.resource.as_str() {
                "pods" => limits::check_pod(new, &range),
                _ => limits::check_claim(new, &range),
            };
            match errors.as_slice() {
                [] => {}
                [one] => return Err(forbid(attributes, object, one)),
                many => return Err(forbid(attributes, object, format!("[{}]", many.join(", ")))),
            }
        }
        Ok(())
    }
}

/// Pods when created or resized, claims when created or changed; not what is being deleted.
fn applies(attributes: &Attributes<'_>) -> bool {
    if !attributes.resource.group.is_empty()
        || attributes.old.is_some_and(|o| meta::deletion_timestamp(o).is_some())
    {
        return false;
    }
    match (attributes.resource.resource.as_str(), attributes.subresource, attributes.operation) {
        ("pods", "", Operation::Create) | ("pods", "resize", Operation::Update) => true,
        ("persistentvolumeclaims", "", operation) => {
            matches!(operation, Operation::Create | Operation::Update)
        }
        _ => false,
    }
}

impl LimitRanger {
    async fn ranges(&self, attributes: &Attributes<'_>) -> Vec<Value> {
        self.0.reader.list("", "limitranges", Some(attributes.namespace), "").await
    }
}

/// The defaults of a range: requests and limits.
fn defaults(range: &Value) -> [(&'static str, Map<String, Value>); 2] {
    let collect = |field: &str| {
        items(&range["spec"], "limits")
            .filter(|l| text(l, "type") == "Container")
            .filter_map(|l| l.get(field).and_then(Value::as_object))
            .flatten()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect::<Map<_, _>>()
    };
    [("requests", collect("defaultRequest")), ("limits", collect("default"))]
}

fn set_defaults(pod: &mut Value, range: &Value) {
    let defaults = defaults(range);
    let mut notes: Vec<String> = Vec::new();
    for (list, prefix) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.get_mut("spec").and_then(|s| s.get_mut(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = text(container, "name").to_owned();
            let Some(map) = container.as_object_mut() else { continue };
            for (what, values) in &defaults {
                let mut set = Vec::new();
                for (key, value) in values {
                    let resources = meta::child_mut(meta::child_mut(map, "resources"), what);
                    if !resources.contains_key(key) {
                        resources.insert(key.clone(), value.clone());
                        set.push(key.as_str());
                    }
                }
                if !set.is_empty() {
                    let singular = what.trim_end_matches('s');
                    notes.push(format!("{} {singular} for {prefix} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        let annotations = meta::child_mut(meta::metadata_mut(pod), "annotations");
        annotations.insert(ANNOTATION.to_owned(), json!(note));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_noted() {
        let range = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "1", "memory": "1Gi"},
            "defaultRequest": {"cpu": "100m"}}]}});
        let mut pod = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]}});
        set_defaults(&mut pod, &range);
        let resources = &pod["spec"]["containers"][0]["resources"];
        assert_eq!(resources, &json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "100m"}}));
        assert_eq!(
            meta::annotation(&pod, ANNOTATION),
            Some("LimitRanger plugin set: cpu request for container a; memory limit for container a")
        );
    }
}
