//! ClusterRoles made of others: `admin`, `edit` and `view` gather the rules of roles that carry their labels.

use copepod_client::resources::CLUSTER_ROLES;
use copepod_client::{Informer, InformerConfig, Meta, ObjectKey, Outcome, WorkQueue};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context::{Context, SyncResult};
use crate::step::{Step, execute_all};
use crate::views::{Raw, Selector};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClusterRole {
    metadata: Meta,
    #[serde(default)]
    rules: Raw,
    #[serde(default)]
    aggregation_rule: Option<Aggregation>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Aggregation {
    cluster_role_selectors: Vec<Selector>,
}

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue: WorkQueue<ObjectKey> = WorkQueue::new();
    let roles: Informer<ClusterRole> = Informer::new(InformerConfig::all(CLUSTER_ROLES));
    let (all, changed) = (roles.clone(), queue.clone());
    roles.on_change(move |key, delta| {
        let same = |old: &ClusterRole, new: &ClusterRole| {
            old.metadata.resource_version == new.metadata.resource_version
        };
        if delta.old().is_some_and(|old| same(old, delta.object())) {
            return;
        }
        changed.add(key.clone());
        // Any role may be a part of an aggregated one. There are few of those, and a look costs little.
        for role in all.list().iter().filter(|r| r.aggregation_rule.is_some()) {
            changed.add(role.metadata.key());
        }
    });
    roles.start(&context.reader, &context.shutdown);
    context.work(&queue, 1, move |context, key| {
        let roles = roles.clone();
        async move {
            roles.synced().await;
            sync(&context, &roles, &key).await
        }
    });
}

async fn sync(context: &Context, roles: &Informer<ClusterRole>, key: &ObjectKey) -> SyncResult {
    let Some(role) = roles.get_key(key) else { return Ok(Outcome::Done) };
    let Some(rule) = &role.aggregation_rule else { return Ok(Outcome::Done) };
    let parts: Vec<_> = roles.list();
    let rules = gather(&role, rule, parts.iter().map(|r| &**r));
    if role.rules.value() == rules || (role.rules.value().is_null() && rules == json!([])) {
        return Ok(Outcome::Done);
    }
    let step = Step::merge(&CLUSTER_ROLES, &role.metadata, json!({"rules": rules}));
    execute_all(context, vec![step]).await.map(|()| Outcome::Done)
}

/// The rules of all selected roles, in the order of their names, each rule once.
fn gather<'a>(
    role: &ClusterRole,
    rule: &Aggregation,
    all: impl Iterator<Item = &'a ClusterRole> + Clone,
) -> Value {
    let mut rules: Vec<Value> = Vec::new();
    for selector in &rule.cluster_role_selectors {
        let selected = all.clone().filter(|r| {
            r.metadata.name != role.metadata.name && selector.compiled.matches(&r.metadata.labels)
        });
        for part in selected {
            for rule in part.rules.value().as_array().into_iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Value::Array(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_selected_roles_are_gathered_once() {
        let role = |name: &str, label: &str, rules: Value| -> ClusterRole {
            serde_json::from_value(
                json!({"metadata": {"name": name, "labels": {"to": label}}, "rules": rules}),
            )
            .unwrap()
        };
        let view: ClusterRole = serde_json::from_value(json!({
            "metadata": {"name": "view", "labels": {"to": "view"}}, "rules": null,
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "view"}}]},
        }))
        .unwrap();
        let (a, b) = (json!({"verbs": ["get"]}), json!({"verbs": ["list"]}));
        let roles =
            [role("x", "view", json!([a, b])), role("y", "view", json!([b])), role("z", "edit", json!([a]))];
        let rule = view.aggregation_rule.as_ref().unwrap();
        assert_eq!(gather(&view, rule, roles.iter()), json!([a, b]));
    }
}
