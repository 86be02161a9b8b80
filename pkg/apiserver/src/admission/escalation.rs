//! RBAC's own guard: nobody grants what they do not have, unless they may `escalate` or `bind`
//! (`k8s.io/kubernetes/pkg/registry/rbac/*/policybased`).

use async_trait::async_trait;
use copepod_api::{ApiResult, meta};
use copepod_registry::{Admission, Attributes, Operation};
use serde::Deserialize as _;
use serde_json::Value;

use super::{Deps, forbid, text};
use crate::authz::Check;
use crate::authz::rules::{PolicyRule, not_covered};
use crate::user::{Identity as _, MASTERS};

const GROUP: &str = "rbac.authorization.k8s.io";

#[derive(Debug)]
pub(super) struct Escalation(pub Deps);

#[async_trait]
impl Admission for Escalation {
    fn name(&self) -> &'static str {
        "RBACEscalation"
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let Some(new) = object.filter(|_| attributes.operation != Operation::Delete) else {
            return Ok(());
        };
        if attributes.resource.group != GROUP || attributes.user.in_group(MASTERS) {
            return Ok(());
        }
        let same = |field: &str| attributes.old.is_some_and(|old| old.get(field) == new.get(field));
        match attributes.resource.resource.as_str() {
            "roles" | "clusterroles" if !same("rules") || !same("aggregationRule") => {
                self.role(attributes, new).await
            }
            "rolebindings" | "clusterrolebindings" if !same("roleRef") || !same("subjects") => {
                self.binding(attributes, new).await
            }
            _ => Ok(()),
        }
    }
}

impl Escalation {
    async fn may(&self, attributes: &Attributes<'_>, verb: &str, resource: &str, name: &str) -> bool {
        let check = Check {
            user: attributes.user,
            verb,
            group: GROUP,
            resource,
            namespace: attributes.namespace,
            name,
            is_resource: true,
            ..Check::default()
        };
        self.0.authorizer.decide(&check).await.allowed
    }

    async fn role(&self, attributes: &Attributes<'_>, role: &Value) -> ApiResult<()> {
        let resource = attributes.resource.resource.as_str();
        if self.may(attributes, "escalate", resource, meta::name(role)).await {
            return Ok(());
        }
        let rules =
            role.get("rules").map(Vec::<PolicyRule>::deserialize).and_then(Result::ok).unwrap_or_default();
        self.covered(attributes, role, &rules)?;
        if role.get("aggregationRule").is_some_and(|r| !r.is_null()) {
            // Whoever aggregates may come to grant anything.
            let all = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
            let everything = [PolicyRule {
                verbs: all(&["*"]),
                api_groups: all(&["*"]),
                resources: all(&["*"]),
                non_resource_urls: all(&["*"]),
                ..PolicyRule::default()
            }];
            if self.covered(attributes, role, &everything).is_err() {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(forbid(attributes, Some(role), why));
            }
        }
        Ok(())
    }

    async fn binding(&self, attributes: &Attributes<'_>, binding: &Value) -> ApiResult<()> {
        let (kind, name) = (text(&binding["roleRef"], "kind"), text(&binding["roleRef"], "name"));
        let resource = if kind == "ClusterRole" { "clusterroles" } else { "roles" };
        if self.may(attributes, "bind", resource, name).await {
            return Ok(());
        }
        let role = self.0.authorizer.rbac.read().role(kind, attributes.namespace, name);
        match role {
            Some(rules) => self.covered(attributes, binding, &rules),
            None => {
                Err(copepod_api::ApiError::not_found(&copepod_api::GroupResource::new(GROUP, resource), name))
            }
        }
    }

    fn covered(&self, attributes: &Attributes<'_>, object: &Value, wanted: &[PolicyRule]) -> ApiResult<()> {
        let (owned, missing_roles) =
            self.0.authorizer.rbac.read().rules_for(attributes.user, attributes.namespace);
        let owned: Vec<PolicyRule> = owned.iter().flat_map(|r| r.iter().cloned()).collect();
        let missing = not_covered(&owned, wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = missing.iter().map(PolicyRule::compact).collect();
        let groups: Vec<String> =
            attributes.user.groups.iter().map(|g| copepod_api::field::quote(g)).collect();
        let mut why = format!(
            "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            copepod_api::field::quote(&attributes.user.name),
            groups.join(" "),
            lines.join("\n")
        );
        if !missing_roles.is_empty() {
            why = format!("{why}; resolution errors: [{}]", missing_roles.join(", "));
        }
        Err(forbid(attributes, Some(object), why))
    }
}
