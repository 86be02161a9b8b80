//! DefaultTolerationSeconds: pods stay on a node that fails for five minutes, unless they say otherwise.

use async_trait::async_trait;
use copepod_api::ApiResult;
use copepod_registry::{Admission, Attributes, Operation};
use serde_json::{Value, json};

use super::{is, list_mut, spec_mut, text};

const SECONDS: i64 = 300;

#[derive(Debug)]
pub(super) struct DefaultTolerationSeconds;

#[async_trait]
impl Admission for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        if is(attributes, "", "pods") && attributes.operation != Operation::Delete {
            add_defaults(object);
        }
        Ok(())
    }
}

fn add_defaults(pod: &mut Value) {
    // An update that leaves the list alone must not gain an empty one.
    let Some(tolerations) = spec_mut(pod).and_then(|spec| list_mut(spec, "tolerations")) else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|t| {
            (text(t, "key") == key || text(t, "key").is_empty())
                && matches!(text(t, "effect"), "NoExecute" | "")
        });
        if !tolerated {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing() {
        let mut pod =
            json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}});
        add_defaults(&mut pod);
        add_defaults(&mut pod);
        let list = pod["spec"]["tolerations"].as_array().unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(list[1]["key"], "node.kubernetes.io/unreachable");
        let mut all = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
        add_defaults(&mut all);
        assert_eq!(all["spec"]["tolerations"].as_array().unwrap().len(), 1);
    }
}
