//! RuntimeClass: a pod's class must exist; its overhead and scheduling constraints become the pod's.

use async_trait::async_trait;
use copepod_api::{ApiResult, meta};
use copepod_registry::{Admission, Attributes};
use serde_json::{Value, json};

use super::{Deps, creates, forbid, items, list_mut, spec_mut, text};

#[derive(Debug)]
pub(super) struct RuntimeClass(pub Deps);

#[async_trait]
impl Admission for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        if !creates(attributes, "", "pods") {
            return Ok(());
        }
        let class = self.class(attributes, object).await?;
        apply(object, class.as_ref()).map_err(|why| forbid(attributes, Some(object), why))
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let Some(pod) = object.filter(|_| creates(attributes, "", "pods")) else { return Ok(()) };
        let class = self.class(attributes, pod).await?;
        let wanted = class.as_ref().and_then(|c| c.pointer("/overhead/podFixed"));
        let given = pod["spec"].get("overhead").filter(|o| o.as_object().is_some_and(|o| !o.is_empty()));
        if given == wanted {
            return Ok(());
        }
        let why = if class.is_none() {
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        } else {
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        };
        Err(forbid(attributes, object, why))
    }
}

impl RuntimeClass {
    async fn class(&self, attributes: &Attributes<'_>, pod: &Value) -> ApiResult<Option<Value>> {
        let name = text(&pod["spec"], "runtimeClassName");
        if name.is_empty() {
            return Ok(None);
        }
        let class = self.0.reader.get("node.k8s.io", "runtimeclasses", None, name).await;
        match class {
            Some(class) => Ok(Some(class)),
            None => {
                let quoted = copepod_api::field::quote(name);
                Err(forbid(attributes, Some(pod), format!("pod rejected: RuntimeClass {quoted} not found")))
            }
        }
    }
}

fn apply(pod: &mut Value, class: Option<&Value>) -> Result<(), String> {
    let (Some(class), Some(spec)) = (class, spec_mut(pod)) else { return Ok(()) };
    if let Some(fixed) = class.pointer("/overhead/podFixed") {
        match spec.get("overhead").filter(|o| !o.is_null()) {
            Some(given) if given != fixed => {
                return Err(
                    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned()
                );
            }
            _ => drop(spec.insert("overhead".to_owned(), fixed.clone())),
        }
    }
    let Some(scheduling) = class.get("scheduling") else { return Ok(()) };
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let selector = meta::child_mut(spec, "nodeSelector");
        if selector.get(key).is_some_and(|own| own != value) {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                value.as_str().unwrap_or_default(),
                text(&json!(selector), key)
            ));
        }
        selector.insert(key.clone(), value.clone());
    }
    let wanted: Vec<&Value> = items(scheduling, "tolerations").collect();
    if let Some(list) = (!wanted.is_empty()).then(|| list_mut(spec, "tolerations")).flatten() {
        for toleration in wanted {
            if !list.contains(toleration) {
                list.push(toleration.clone());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_and_selectors() {
        let class = json!({"overhead": {"podFixed": {"cpu": "10m"}}, "scheduling": {"nodeSelector": {"a": "b"},
            "tolerations": [{"key": "k"}]}});
        let mut pod = json!({"spec": {}});
        apply(&mut pod, Some(&class)).unwrap();
        assert_eq!(pod["spec"]["overhead"]["cpu"], "10m");
        assert_eq!(pod["spec"]["nodeSelector"]["a"], "b");
        assert_eq!(pod["spec"]["tolerations"][0]["key"], "k");
        let mut other = json!({"spec": {"nodeSelector": {"a": "c"}}});
        assert!(apply(&mut other, Some(&class)).unwrap_err().contains("conflict"));
    }
}
