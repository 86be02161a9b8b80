//! Upstream's default roles and bindings, reconciled at every start unless an object opts out
//! (`rbac.authorization.kubernetes.io/autoupdate: "false"`).

use copepod_api::{ApiError, ApiResult, GroupVersionResource, Reason, meta};
use copepod_registry::{Body, RequestContext, Store, Target};
use serde_json::Value;

use super::data;
use crate::authz::rules::{PolicyRule, not_covered};
use crate::server::Server;

const GROUP: &str = "rbac.authorization.k8s.io";
/// Facts of upstream's `bootstrappolicy`.
pub(super) const RBAC: &str = include_str!("../../data/rbac.json");

/// The rules of ClusterRole `system:node`, which the Node authorizer grants to its nodes.
pub(crate) fn node_rules() -> Vec<PolicyRule> {
    let objects = data(RBAC);
    let role = objects.iter().find(|o| o["kind"] == "ClusterRole" && meta::name(o) == "system:node");
    rules(role.unwrap_or(&Value::Null))
}

fn rules(role: &Value) -> Vec<PolicyRule> {
    role.get("rules").cloned().and_then(|r| serde_json::from_value(r).ok()).unwrap_or_default()
}

fn plural(kind: &str) -> &'static str {
    match kind {
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "Role" => "roles",
        _ => "rolebindings",
    }
}

impl Server {
    /// Creates what is missing and adds what has been taken away.
    pub(super) async fn reconcile_rbac(&self) -> ApiResult<()> {
        for object in data(RBAC) {
            let gvr =
                GroupVersionResource::new(GROUP, "v1", plural(object["kind"].as_str().unwrap_or_default()));
            let store = self.registry.store(&gvr);
            let store = store.ok_or_else(|| ApiError::internal(format!("no store of {}", gvr.resource)))?;
            reconcile(&store, object).await?;
        }
        Ok(())
    }
}

async fn reconcile(store: &Store, wanted: Value) -> ApiResult<()> {
    let cx = RequestContext::internal();
    let namespace = Some(meta::namespace(&wanted)).filter(|ns| !ns.is_empty()).map(str::to_owned);
    let target = Target::new(namespace.as_deref(), meta::name(&wanted));
    match store.get(&cx, &target, "").await {
        Err(error) if error.is(Reason::NotFound) => {
            let collection = Target::new(namespace.as_deref(), "");
            match store.create(&cx, &collection, Body::Value(wanted)).await {
                Err(error) if !error.is(Reason::AlreadyExists) => Err(error),
                _ => Ok(()),
            }
        }
        Err(error) => Err(error),
        Ok(current) => match plan(&current.into_value(), &wanted) {
            Some(merged) => store.update(&cx, &target, Body::Value(merged)).await.map(drop),
            None => Ok(()),
        },
    }
}

/// What the object must become; `None` when it is fine or opts out.
fn plan(current: &Value, wanted: &Value) -> Option<Value> {
    if meta::annotation(current, "rbac.authorization.kubernetes.io/autoupdate") == Some("false") {
        return None;
    }
    let mut merged = current.clone();
    for field in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][field].as_object().into_iter().flatten() {
            meta::child_mut(meta::metadata_mut(&mut merged), field).insert(key.clone(), value.clone());
        }
    }
    if wanted.get("aggregationRule").is_some() {
        // The controller fills in the rules of aggregated roles.
        merged["aggregationRule"] = wanted["aggregationRule"].clone();
    } else if wanted.get("roleRef").is_some() {
        for subject in wanted["subjects"].as_array().into_iter().flatten() {
            let list = &mut merged["subjects"];
            if list.is_null() {
                *list = Value::Array(Vec::new());
            }
            if let Some(list) = list.as_array_mut().filter(|l| !l.contains(subject)) {
                list.push(subject.clone());
            }
        }
    } else {
        let missing = not_covered(&rules(current), &rules(wanted));
        let list = merged["rules"].as_array().cloned().unwrap_or_default();
        let more = missing.iter().filter_map(|r| serde_json::to_value(r).ok());
        let all: Vec<Value> = list.into_iter().chain(more).collect();
        if !missing.is_empty() {
            merged["rules"] = Value::Array(all);
        }
    }
    (merged != *current).then_some(merged)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn roles_regain_what_was_taken() {
        let wanted = json!({"kind": "ClusterRole", "metadata": {"name": "r", "labels": {"a": "b"}},
            "rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]});
        let mut current = json!({"kind": "ClusterRole", "metadata": {"name": "r", "labels": {"a": "b"}},
            "rules": [{"verbs": ["get", "watch"], "apiGroups": [""], "resources": ["pods"]}]});
        let merged = plan(&current, &wanted).unwrap();
        assert_eq!(merged["rules"].as_array().unwrap().len(), 2);
        assert_eq!(plan(&merged, &wanted), None);
        current["metadata"]["annotations"] = json!({"rbac.authorization.kubernetes.io/autoupdate": "false"});
        assert_eq!(plan(&current, &wanted), None);
    }

    #[test]
    fn every_object_of_upstream_is_there() {
        let objects = data(RBAC);
        assert_eq!(objects.len(), 141);
        assert!(node_rules().len() > 20);
        assert!(objects.iter().all(|o| plan(o, o).is_none()));
    }
}
