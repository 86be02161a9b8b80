//! Which requests a webhook sees.

use copepod_api::{ApiError, ApiResult, GroupResource, GroupVersionResource, meta};
use copepod_registry::{Attributes, Operation};
use serde_json::Value;

use super::Hook;
use crate::reader::Reader;

/// A rule with operations. Also of admission policies.
#[derive(Debug, Default)]
pub(in crate::admission) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
}

fn any(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

impl Rule {
    /// Reads a rule.
    pub(in crate::admission) fn read(rule: &Value) -> Self {
        let list = |field: &str| -> Vec<String> {
            let items = rule.get(field).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: list("resources"),
            scope: rule.get("scope").and_then(Value::as_str).unwrap_or("*").to_owned(),
        }
    }

    /// Whether it matches a request, were it for `resource`.
    pub(in crate::admission) fn matches(
        &self,
        attributes: &Attributes<'_>,
        resource: &GroupVersionResource,
    ) -> bool {
        let namespaces = resource.group.is_empty() && resource.resource == "namespaces";
        let scoped = match self.scope.as_str() {
            "Namespaced" => !namespaces && !attributes.namespace.is_empty(),
            "Cluster" => namespaces || attributes.namespace.is_empty(),
            "*" => true,
            _ => false,
        };
        scoped
            && any(&self.operations, attributes.operation.as_str())
            && any(&self.groups, &resource.group)
            && any(&self.versions, &resource.version)
            && self.resources.iter().any(|pattern| {
                let (wanted, sub) = pattern.split_once('/').unwrap_or((pattern, ""));
                (wanted == "*" || wanted == resource.resource)
                    && (sub == "*" || sub == attributes.subresource)
            })
    }
}

/// Whether the object, before or after, has the labels that the webhook selects.
pub(super) fn object_matches(hook: &Hook, object: Option<&Value>, old: Option<&Value>) -> bool {
    let Ok(selector) = &hook.objects else { return true };
    selector.is_empty()
        || [object, old].into_iter().flatten().any(|object| selector.matches(&meta::labels(object)))
}

/// Whether the request is in a namespace that the webhook selects. An error matters only if the webhook is called.
pub(super) async fn namespace_matches(
    reader: &Reader,
    hook: &Hook,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
) -> ApiResult<bool> {
    let own = attributes.resource.resource == "namespaces";
    if attributes.namespace.is_empty() && !own {
        return Ok(true);
    }
    let selector = hook.namespaces.as_ref().map_err(ApiError::internal)?;
    if let Err(why) = &hook.objects {
        return Err(ApiError::internal(why));
    }
    if selector.is_empty() {
        return Ok(true);
    }
    let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
    if own && attributes.subresource.is_empty() && writes {
        return Ok(selector.matches(&object.and_then(meta::labels)));
    }
    let name = if own { attributes.name } else { attributes.namespace };
    let namespace = reader.get("", "namespaces", None, name).await;
    let namespace =
        namespace.ok_or_else(|| ApiError::not_found(&GroupResource::new("", "namespaces"), name))?;
    Ok(selector.matches(&meta::labels(&namespace)))
}
