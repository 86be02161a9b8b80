//! RBAC's four kinds, parsed and kept current by watches on the registry.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::Check;
use super::rules::PolicyRule;
use crate::user::{Identity as _, UserInfo};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RoleRef {
    kind: String,
    name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Binding {
    subjects: Vec<Subject>,
    role_ref: RoleRef,
}

/// Namespace (empty for cluster-wide kinds) and name.
type Key = (String, String);

/// Roles and bindings.
#[derive(Debug, Default)]
pub(crate) struct RbacIndex {
    roles: BTreeMap<Key, Arc<Vec<PolicyRule>>>,
    bindings: BTreeMap<Key, Binding>,
}

/// As the reason of a decision names it.
impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.kind == "ServiceAccount" {
            write!(f, "ServiceAccount {:?}", format!("{}/{}", self.name, self.namespace))
        } else {
            write!(f, "{} {:?}", self.kind, self.name)
        }
    }
}

impl Subject {
    fn is(&self, user: &UserInfo, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => self.name == user.name,
            "Group" => user.in_group(&self.name),
            "ServiceAccount" => {
                let namespace = if self.namespace.is_empty() { binding_namespace } else { &self.namespace };
                !namespace.is_empty() && user.service_account() == Some((namespace, &self.name))
            }
            _ => false,
        }
    }
}

impl RbacIndex {
    /// Takes over one object of the plural `resource`; `None` removes it.
    pub(crate) fn set(&mut self, resource: &str, namespace: &str, name: &str, object: Option<&Value>) {
        let key = (namespace.to_owned(), name.to_owned());
        let is_role = matches!(resource, "roles" | "clusterroles");
        match (object, is_role) {
            (None, true) => drop(self.roles.remove(&key)),
            (None, false) => drop(self.bindings.remove(&key)),
            (Some(object), true) => {
                let rules = object.get("rules").map(Vec::<PolicyRule>::deserialize);
                let rules = rules.and_then(Result::ok).unwrap_or_default();
                self.roles.insert(key, Arc::new(rules));
            }
            (Some(object), false) => {
                self.bindings.insert(key, Binding::deserialize(object).unwrap_or_default());
            }
        }
    }

    /// The rules of a role; `None` when it does not exist.
    pub(crate) fn role(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Vec<PolicyRule>>> {
        let namespace = if kind == "ClusterRole" { "" } else { namespace };
        self.roles.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// The binding that allows it, in upstream's words.
    fn allowed_by(&self, check: &Check<'_>) -> Option<String> {
        let scopes = if check.namespace.is_empty() { &[""][..] } else { &["", check.namespace][..] };
        for scope in scopes {
            let from = (String::from(*scope), String::new());
            for ((_, name), binding) in self.bindings.range(from..).take_while(|(key, _)| key.0 == *scope) {
                let Some(subject) = binding.subjects.iter().find(|s| s.is(check.user, scope)) else {
                    continue;
                };
                let role = &binding.role_ref;
                let rules = self.role(&role.kind, scope, &role.name);
                if rules.is_some_and(|rules| rules.iter().any(|rule| rule.allows(check))) {
                    let kind = if scope.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
                    let full = if scope.is_empty() { name.clone() } else { format!("{name}/{scope}") };
                    return Some(format!(
                        "RBAC: allowed by {kind} {full:?} of {} {:?} to {subject}",
                        role.kind, role.name
                    ));
                }
            }
        }
        None
    }

    /// The rules of every binding that names the user, cluster-wide ones first, then those of `namespace`; and the
    /// roles that bindings name in vain.
    pub(crate) fn rules_for(
        &self,
        user: &UserInfo,
        namespace: &str,
    ) -> (Vec<Arc<Vec<PolicyRule>>>, Vec<String>) {
        let mut rules = Vec::new();
        let mut missing = Vec::new();
        let scopes = if namespace.is_empty() { &[""][..] } else { &["", namespace][..] };
        for scope in scopes {
            let from = (String::from(*scope), String::new());
            for (_, binding) in self.bindings.range(from..).take_while(|(key, _)| key.0 == *scope) {
                if !binding.subjects.iter().any(|s| s.is(user, scope)) {
                    continue;
                }
                let RoleRef { kind, name } = &binding.role_ref;
                match self.role(kind, scope, name) {
                    Some(found) => rules.push(found),
                    None => missing.push(format!(
                        "{}.rbac.authorization.k8s.io {} not found",
                        kind.to_ascii_lowercase(),
                        copepod_api::field::quote(name)
                    )),
                }
            }
        }
        (rules, missing)
    }

    /// Whether some rule allows it, else upstream's reason (empty unless a binding is broken).
    pub(crate) fn authorize(&self, check: &Check<'_>) -> (bool, String) {
        if let Some(why) = self.allowed_by(check) {
            return (true, why);
        }
        let (_, missing) = self.rules_for(check.user, check.namespace);
        let reason = match missing.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        };
        (false, reason)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn index() -> RbacIndex {
        let mut index = RbacIndex::default();
        let rule = json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
        index.set("clusterroles", "", "reader", Some(&rule));
        index.set("roles", "dev", "reader", Some(&rule));
        let bind = |kind: &str, subject: Value| json!({"subjects": [subject], "roleRef": {"kind": kind, "name": "reader"}});
        index.set(
            "clusterrolebindings",
            "",
            "ops",
            Some(&bind("ClusterRole", json!({"kind": "Group", "name": "ops"}))),
        );
        let account = json!({"kind": "ServiceAccount", "name": "bot"});
        index.set("rolebindings", "dev", "bot", Some(&bind("Role", account)));
        let broken = json!({"subjects": [{"kind": "User", "name": "eve"}], "roleRef": {"kind": "Role", "name": "none"}});
        index.set("rolebindings", "dev", "eve", Some(&broken));
        index
    }

    fn allowed(index: &RbacIndex, user: &UserInfo, namespace: &str) -> (bool, String) {
        index.authorize(&Check {
            user,
            verb: "get",
            resource: "pods",
            namespace,
            is_resource: true,
            ..Check::default()
        })
    }

    #[test]
    fn groups_accounts_and_namespaces() {
        let mut index = index();
        let ops = UserInfo { name: "a".into(), groups: vec!["ops".into()], ..UserInfo::default() };
        assert!(allowed(&index, &ops, "").0);
        assert!(allowed(&index, &ops, "dev").0);
        let bot = crate::user::service_account_user("dev", "bot", "");
        assert!(allowed(&index, &bot, "dev").0);
        assert!(!allowed(&index, &bot, "prod").0);
        assert!(!allowed(&index, &bot, "").0);
        index.set("rolebindings", "dev", "bot", None);
        assert!(!allowed(&index, &bot, "dev").0);
    }

    #[test]
    fn a_binding_to_nothing_is_the_reason() {
        let eve = UserInfo { name: "eve".into(), ..UserInfo::default() };
        let (ok, reason) = allowed(&index(), &eve, "dev");
        assert!(!ok);
        assert_eq!(reason, r#"RBAC: role.rbac.authorization.k8s.io "none" not found"#);
    }
}
