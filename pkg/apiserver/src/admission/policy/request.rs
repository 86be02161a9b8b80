//! What expressions see of a request: `request`, `namespaceObject` and `authorizer`.

use copepod_api::{GroupVersionKind, GroupVersionResource};
use copepod_cel::{Authorizer as Ask, Check as Question, Decision};
use copepod_registry::{Attributes, UserInfo};
use futures::FutureExt as _;
use serde_json::{Map, Value, json};

use super::Seen;
use crate::authz::{Authorizer, Check};

fn kind(kind: &GroupVersionKind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn resource(resource: &GroupVersionResource) -> Value {
    json!({"group": resource.group, "version": resource.version, "resource": resource.resource})
}

/// The AdmissionRequest, without its objects.
pub(super) fn value(attributes: &Attributes<'_>, seen: &Seen, own: &Seen) -> Value {
    let mut request = Map::new();
    let mut set = |field: &str, value: Value| drop(request.insert(field.to_owned(), value));
    set("kind", kind(&seen.kind));
    set("resource", resource(&seen.resource));
    set("requestKind", kind(&own.kind));
    set("requestResource", resource(&own.resource));
    // A request about a Namespace itself names it as its place, too.
    let namespaces = attributes.resource.group.is_empty() && attributes.resource.resource == "namespaces";
    for (field, text) in [
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
        ("name", attributes.name),
        ("namespace", if namespaces { attributes.name } else { attributes.namespace }),
    ] {
        if !text.is_empty() {
            set(field, text.into());
        }
    }
    set("operation", attributes.operation.as_str().into());
    set("userInfo", json!(attributes.user));
    set("dryRun", attributes.dry_run.into());
    set("options", attributes.options.clone());
    Value::Object(request)
}

/// A namespace as expressions see it: no managed fields, no owners.
pub(super) fn exposed(namespace: &Value) -> Value {
    let mut namespace = namespace.clone();
    if let Some(metadata) = namespace.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("ownerReferences");
    }
    namespace
}

/// Answers the questions of expressions for the user of a request.
#[derive(Debug, Clone, Copy)]
pub(in crate::admission) struct Answers<'a> {
    authorizer: &'a Authorizer,
    user: &'a UserInfo,
}

impl<'a> Answers<'a> {
    /// For the user `user`.
    pub(in crate::admission) fn new(authorizer: &'a Authorizer, user: &'a UserInfo) -> Self {
        Self { authorizer, user }
    }
}

impl Ask for Answers<'_> {
    fn decide(&self, question: &Question) -> Decision {
        let account = question.service_account.as_ref().map(|(namespace, name)| account(namespace, name));
        let check = Check {
            user: account.as_ref().unwrap_or(self.user),
            verb: &question.verb,
            group: &question.group,
            resource: &question.resource,
            subresource: &question.subresource,
            namespace: &question.namespace,
            name: &question.name,
            path: question.path.as_deref().unwrap_or_default(),
            is_resource: question.path.is_none(),
            field_selector: question.field_selector.as_deref().unwrap_or_default(),
        };
        // Authorizers read the watch cache, which answers at once.
        match self.authorizer.decide(&check).now_or_never() {
            Some(decision) => Decision { allowed: decision.allowed, reason: decision.reason, error: None },
            None => Decision { error: Some("the authorizer is not ready".to_owned()), ..Decision::default() },
        }
    }
}

fn account(namespace: &str, name: &str) -> UserInfo {
    UserInfo {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
        ..UserInfo::default()
    }
}
