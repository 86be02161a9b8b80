//! The status of ValidatingAdmissionPolicies: what type checking finds in their expressions.

use std::sync::Arc;

use copepod_api::{FieldPath, GroupVersionKind};
use copepod_cel::{
    Type,
    schema::{Schemas, View},
    typecheck::{self, MOST_TYPES, Typed, Warning},
};
use copepod_client::{
    ClientError, Informer, InformerConfig, Meta, ObjectKey, Outcome, ResourceRef, Target, WorkQueue,
};
use copepod_schema::SchemaSet;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context::{Context, SyncResult, enqueue};
use crate::step::{Step, execute_all};
use crate::views::Raw;

const POLICIES: ResourceRef = ResourceRef::cluster(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
);

#[derive(Debug, Deserialize)]
struct Policy {
    metadata: Meta,
    #[serde(default)]
    spec: Raw,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: i64,
}

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue: WorkQueue<ObjectKey> = WorkQueue::new();
    let policies: Informer<Policy> = Informer::new(InformerConfig::all(POLICIES));
    enqueue(&policies, &queue);
    policies.start(&context.reader, &context.shutdown);
    context.work(&queue, 1, move |context, key| {
        let policies = policies.clone();
        async move {
            policies.synced().await;
            sync(&context, &policies, &key).await
        }
    });
}

async fn sync(context: &Context, policies: &Informer<Policy>, key: &ObjectKey) -> SyncResult {
    let Some(policy) = policies.get_key(key) else { return Ok(Outcome::Done) };
    let generation = policy.metadata.generation;
    if generation <= policy.status.observed_generation {
        return Ok(Outcome::Done);
    }
    let spec = policy.spec.value();
    let mut kinds: Vec<Typed> = Vec::new();
    for wanted in wanted(&spec) {
        if kinds.iter().any(|(gvk, _)| *gvk == wanted.gvk()) {
            continue;
        }
        if let Some(found) = wanted.resolve(context).await? {
            kinds.push(found);
        }
    }
    kinds.sort_by(|(a, _), (b, _)| (&a.group, &a.version, &a.kind).cmp(&(&b.group, &b.version, &b.kind)));
    kinds.dedup_by(|(a, _), (b, _)| a == b);
    let params = param_type(&spec);
    let step = Step::status(
        &POLICIES,
        &policy.metadata,
        status(generation, typecheck::check(&spec, &kinds, params)),
    );
    execute_all(context, vec![step]).await.map(|()| Outcome::Done)
}

fn status(generation: i64, warnings: Vec<Warning>) -> Value {
    let warnings: Vec<Value> =
        warnings.into_iter().map(|w| json!({"fieldRef": w.field, "warning": w.text})).collect();
    // A merge patch clears the warnings of an earlier generation by a null.
    let warnings = if warnings.is_empty() { Value::Null } else { Value::from(warnings) };
    let checked = json!({"expressionWarnings": warnings});
    json!({"observedGeneration": generation, "typeChecking": checked})
}

/// A resource that a policy names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    group: String,
    version: String,
    resource: String,
}

/// The resources of a policy's rules, without wildcards and subresources; a few of each rule.
fn wanted(spec: &Value) -> Vec<Wanted> {
    let rules = spec.pointer("/matchConstraints/resourceRules").and_then(Value::as_array);
    let mut all = Vec::new();
    for rule in rules.into_iter().flatten() {
        let list = |field: &str| {
            let items = rule.get(field).and_then(Value::as_array).into_iter().flatten();
            let mut items: Vec<&str> = items.filter_map(Value::as_str).collect();
            items.sort_unstable();
            items
        };
        let (groups, versions) = (list("apiGroups"), list("apiVersions"));
        if groups.iter().chain(&versions).any(|name| name.contains('*')) {
            continue;
        }
        let resources: Vec<&str> =
            list("resources").into_iter().filter(|r| !r.contains(['*', '/'])).collect();
        let each = groups.iter().flat_map(|group| versions.iter().map(move |version| (group, version)));
        let each = each.flat_map(|(group, version)| resources.iter().map(move |r| (*group, *version, *r)));
        all.extend(each.take(MOST_TYPES).map(|(group, version, resource)| Wanted {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
        }));
    }
    all
}

impl Wanted {
    fn gvk(&self) -> GroupVersionKind {
        let known = copepod_schema::resources().into_iter().find(|def| {
            def.group == self.group && def.version == self.version && def.plural == self.resource
        });
        let kind = known.map(|def| def.kind).unwrap_or_default();
        GroupVersionKind::new(&self.group, &self.version, &kind)
    }

    /// The kind and its type: built in, or of a definition.
    async fn resolve(&self, context: &Context) -> Result<Option<Typed>, ClientError> {
        let gvk = self.gvk();
        if !gvk.kind.is_empty() {
            return Ok(builtin(&gvk).map(|of| (gvk, of)));
        }
        // The controller-manager may list definitions, not get them.
        let name = format!("{}.{}", self.resource, self.group);
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=metadata.name%3D{name}"
        );
        let body = context.reader.get_raw(&Target::raw(path), "application/json").await?;
        let list: Value = serde_json::from_slice(&body)
            .map_err(|source| ClientError::Body { what: format!("definition {name}"), source })?;
        Ok(list.pointer("/items/0").and_then(|definition| custom(definition, &self.version)))
    }
}

fn builtin(gvk: &GroupVersionKind) -> Option<Type> {
    let set = copepod_schema::builtin();
    let schema = set.kind(&gvk.group, &gvk.version, &gvk.kind)?;
    View::whole(Schemas::Builtin(set)).of(schema.id(), &gvk.kind)
}

fn custom(definition: &Value, version: &str) -> Option<Typed> {
    let text = |path: &str| definition.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let gvk = GroupVersionKind::new(text("/spec/group"), version, text("/spec/names/kind"));
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array)?;
    let own = versions.iter().find(|v| v["name"] == version && v["served"] == true)?;
    let schema = own.pointer("/schema/openAPIV3Schema")?;
    let set = Arc::new(SchemaSet::from_crd(schema, &FieldPath::root()).ok()?);
    let root = set.root()?.id();
    let of = View::whole(Schemas::Custom(Arc::clone(&set))).of(root, &gvk.kind)?;
    Some((gvk, of))
}

/// The type of parameters of a built-in kind; those of custom resources are checked when evaluated.
fn param_type(spec: &Value) -> Option<Type> {
    let text = |path: &str| spec.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let version = text("/paramKind/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    builtin(&GroupVersionKind::new(group, version, text("/paramKind/kind")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_of_rules_are_found() {
        let spec = json!({"matchConstraints": {"resourceRules": [
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments", "deployments/status", "*"]},
            {"apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["pods"]},
        ]}});
        let found = wanted(&spec);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].gvk(), GroupVersionKind::new("apps", "v1", "Deployment"));
        assert!(builtin(&found[0].gvk()).is_some());
    }

    #[test]
    fn types_of_custom_resources_are_made_of_their_schemas() {
        let definition = json!({"spec": {"group": "x.io", "names": {"kind": "Thing"}, "versions": [{"name": "v1", "served": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}}}]}});
        let kinds = [custom(&definition, "v1").unwrap()];
        let spec = json!({"validations": [{"expression": "object.spec.a == 1"}, {"expression": "object.spec.a == 'x'"}]});
        let warnings = typecheck::check(&spec, &kinds, None);
        assert_eq!(warnings.len(), 1);
        assert_eq!(status(3, warnings)["observedGeneration"], 3);
    }
}
