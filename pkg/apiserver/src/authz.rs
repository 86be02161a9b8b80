//! Authorization: `system:masters`, the Node authorizer, RBAC.

use std::sync::Arc;

use copepod_api::{ApiError, ApiResult, GroupResource, field::quote};
use parking_lot::RwLock;

use crate::user::{Identity as _, MASTERS, UserInfo};

pub(crate) mod index;
pub(crate) mod node;
pub(crate) mod rules;

use index::RbacIndex;
use node::NodeAuthorizer;

/// What is to be allowed (`authorizer.Attributes`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check<'a> {
    /// Who asks.
    pub user: &'a UserInfo,
    /// The verb.
    pub verb: &'a str,
    /// The group.
    pub group: &'a str,
    /// The plural.
    pub resource: &'a str,
    /// The subresource; empty for none.
    pub subresource: &'a str,
    /// The namespace; empty at the cluster scope.
    pub namespace: &'a str,
    /// The name; empty for collections.
    pub name: &'a str,
    /// The path, for what is not a resource.
    pub path: &'a str,
    /// Whether this is about a resource.
    pub is_resource: bool,
    /// The field selector of a list or watch, unparsed.
    pub field_selector: &'a str,
}

impl Default for Check<'_> {
    fn default() -> Self {
        static NOBODY: UserInfo = UserInfo {
            name: String::new(),
            uid: String::new(),
            groups: Vec::new(),
            extra: std::collections::BTreeMap::new(),
        };
        Check {
            user: &NOBODY,
            verb: "",
            group: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
            path: "",
            is_resource: false,
            field_selector: "",
        }
    }
}

impl Check<'_> {
    /// The 403 of upstream, with the reason when there is one.
    fn forbidden(&self, reason: &str) -> ApiError {
        let user = quote(&self.user.name);
        let mut message = if self.is_resource {
            let resource = if self.subresource.is_empty() {
                self.resource.to_owned()
            } else {
                format!("{}/{}", self.resource, self.subresource)
            };
            let at = if self.namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {}", quote(self.namespace))
            };
            let (resource, group) = (quote(&resource), quote(self.group));
            format!("User {user} cannot {} resource {resource} in API group {group} {at}", self.verb)
        } else {
            format!("User {user} cannot {} path {}", self.verb, quote(self.path))
        };
        message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if !reason.is_empty() {
            message = format!("{message}: {reason}");
        }
        ApiError::forbidden(&GroupResource::new(self.group, self.resource), self.name, &message)
    }
}

/// What the authorizers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
}

/// The chain of authorizers.
#[derive(Debug)]
pub(crate) struct Authorizer {
    /// RBAC's roles and bindings, kept current by a watch.
    pub rbac: Arc<RwLock<RbacIndex>>,
    /// The Node authorizer.
    pub node: NodeAuthorizer,
    /// `--authorization-mode`, in order: `Node`, `RBAC`, `AlwaysAllow`, `AlwaysDeny`.
    pub modes: Vec<String>,
}

impl Authorizer {
    /// Decides, with the reasons of all who did not allow it.
    pub(crate) async fn decide(&self, check: &Check<'_>) -> Decision {
        if check.user.in_group(MASTERS) {
            return Decision { allowed: true, reason: String::new() };
        }
        let mut reasons: Vec<String> = Vec::new();
        for mode in &self.modes {
            let (name, (allowed, reason)) = match mode.as_str() {
                "Node" => ("node", self.node.authorize(check).await),
                "RBAC" => ("rbac", self.by_rbac(check)),
                "AlwaysAllow" => ("alwaysallow", (true, String::new())),
                _ => ("alwaysdeny", (false, "Everything is forbidden.".to_owned())),
            };
            if allowed {
                return Decision { allowed, reason };
            }
            if !reason.is_empty() {
                reasons.push(format!("{name}: {reason}"));
            }
        }
        Decision { allowed: false, reason: reasons.join("\n") }
    }

    /// The lock is held for the time of one evaluation, never across an await.
    fn by_rbac(&self, check: &Check<'_>) -> (bool, String) {
        self.rbac.read().authorize(check)
    }

    /// 403 unless allowed.
    pub(crate) async fn require(&self, check: &Check<'_>) -> ApiResult<()> {
        let decision = self.decide(check).await;
        if decision.allowed { Ok(()) } else { Err(check.forbidden(&decision.reason)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_upstreams() {
        let user = UserInfo { name: "bob".to_owned(), ..UserInfo::default() };
        let check = Check {
            user: &user,
            verb: "list",
            resource: "pods",
            namespace: "default",
            is_resource: true,
            ..Check::default()
        };
        assert_eq!(
            check.forbidden("").to_string(),
            r#"pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default""#
        );
        let scale = Check {
            verb: "get",
            group: "apps",
            resource: "deployments",
            subresource: "scale",
            namespace: "",
            name: "web",
            ..check
        };
        assert_eq!(
            scale.forbidden("").to_string(),
            r#"deployments.apps "web" is forbidden: User "bob" cannot get resource "deployments/scale" in API group "apps" at the cluster scope"#
        );
        let path = Check { user: &user, verb: "get", path: "/metrics", ..Check::default() };
        assert_eq!(path.forbidden("").to_string(), r#"forbidden: User "bob" cannot get path "/metrics""#);
    }
}
