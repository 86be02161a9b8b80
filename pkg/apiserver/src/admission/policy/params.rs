//! Parameters: objects that bindings give to policies.

use std::sync::Arc;

use copepod_api::{GroupVersionKind, Reason, ResourceDef};
use copepod_registry::{ListOptions, Object, Registry, RequestContext, Target};
use serde_json::Value;

use super::Misconfigured;
use crate::admission::text;

/// `paramKind` of a policy.
#[derive(Debug)]
pub(super) struct ParamKind(GroupVersionKind);

/// `paramRef` of a binding.
#[derive(Debug)]
pub(super) struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<String>,
    /// `parameterNotFoundAction: Deny`
    deny: bool,
}

impl ParamKind {
    /// Reads a `paramKind`.
    pub(super) fn read(value: &Value) -> Self {
        let version = text(value, "apiVersion");
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        Self(GroupVersionKind::new(group, version, text(value, "kind")))
    }

    /// The resource of the kind.
    pub(super) fn row(&self, registry: &Registry) -> Result<Arc<ResourceDef>, Misconfigured> {
        registry.rows().into_iter().find(|row| row.gvk() == self.0).ok_or_else(|| {
            let gvk = &self.0;
            Misconfigured::policy(format!(
                "failed to find resource referenced by paramKind: '{}/{}, Kind={}'",
                gvk.group, gvk.version, gvk.kind
            ))
        })
    }
}

impl ParamRef {
    /// Reads a `paramRef`.
    pub(super) fn read(value: &Value) -> Self {
        let selector = value.get("selector").filter(|s| !s.is_null());
        Self {
            name: text(value, "name").to_owned(),
            namespace: text(value, "namespace").to_owned(),
            selector: selector.map(written),
            deny: text(value, "parameterNotFoundAction") == "Deny",
        }
    }
}

/// A selector object as a selector's text.
fn written(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut terms: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    for term in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let key = text(term, "key");
        let values = term.get("values").and_then(Value::as_array).into_iter().flatten();
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        let values = values.join(",");
        terms.push(match text(term, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.join(",")
}

/// The parameters that a binding gives to a policy; one `None` when the policy is asked without.
pub(super) async fn collect(
    registry: &Registry,
    kind: Option<&ParamKind>,
    reference: Option<&ParamRef>,
    namespace: &str,
) -> Result<Vec<Option<Value>>, Misconfigured> {
    let Some(kind) = kind else { return Ok(vec![None]) };
    let row = kind.row(registry)?;
    let Some(reference) = reference else { return Ok(vec![None]) };
    let place = place(&row, reference, namespace).map_err(Misconfigured::binding)?;
    let found = find(registry, &row, reference, place.as_deref()).await.map_err(Misconfigured::binding)?;
    if found.is_empty() && reference.deny {
        return Err(Misconfigured::binding(
            "no params found for policy binding with `Deny` parameterNotFoundAction",
        ));
    }
    Ok(found.into_iter().map(Some).collect())
}

/// The namespace to look in.
fn place(row: &ResourceDef, reference: &ParamRef, namespace: &str) -> Result<Option<String>, &'static str> {
    match (row.namespaced(), reference.namespace.as_str(), namespace) {
        (true, "", "") => {
            Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
        }
        (true, "", own) => Ok(Some(own.to_owned())),
        (true, given, _) => Ok(Some(given.to_owned())),
        (false, "", _) => Ok(None),
        (false, ..) => Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`"),
    }
}

async fn find(
    registry: &Registry,
    row: &ResourceDef,
    reference: &ParamRef,
    namespace: Option<&str>,
) -> Result<Vec<Value>, String> {
    let Some(store) = registry.store(&row.gvr()) else { return Ok(Vec::new()) };
    let cx = RequestContext::internal();
    let Some(selector) = &reference.selector else {
        return match store.get(&cx, &Target::new(namespace, &reference.name), "0").await {
            Ok(object) => Ok(vec![object.into_value()]),
            Err(error) if error.is(Reason::NotFound) => Ok(Vec::new()),
            Err(error) => Err(error.to_string()),
        };
    };
    let options = ListOptions {
        resource_version: "0".to_owned(),
        label_selector: selector.clone(),
        ..ListOptions::default()
    };
    let list = store.list(&cx, namespace, &options).await.map_err(|error| error.to_string())?;
    Ok(list.items.into_iter().map(Object::into_value).collect())
}
