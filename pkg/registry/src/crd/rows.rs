//! The rows of a definition: one for each served version.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use copepod_api::{
    FieldPath, GroupVersionKind, ResourceDef, Scope, Subresource, Verb, Verbs,
    resource::{PrinterColumn, version_rank},
};
use copepod_schema::SchemaSet;
use copepod_schema::openapi::model_name;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::hooks::CustomHooks;
use crate::{
    convert::{Conversion, ConversionCaller, ConversionWebhook},
    row::{GarbagePolicy, Row, ScalePaths, Schema},
};

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn strings(value: &Value, path: &str) -> Vec<String> {
    let list = value.pointer(path).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The rows of a definition. A version whose schema cannot be used is not served, and logged.
pub(super) fn of(definition: &Value, conversions: Option<&Arc<dyn ConversionCaller>>) -> Vec<Row> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let versions: Vec<&Value> = versions.collect();
    let stored = versions.iter().find(|v| v["storage"] == true).map(|v| text(v, "/name")).unwrap_or_default();
    let webhook = webhook(definition, &versions, conversions);
    let served = versions.iter().filter(|v| v["served"] == true);
    served.filter_map(|version| row(definition, version, stored, webhook.clone())).collect()
}

/// What converts, when a webhook does; with the schemas of all versions, because objects may be stored in any.
fn webhook(
    definition: &Value,
    versions: &[&Value],
    conversions: Option<&Arc<dyn ConversionCaller>>,
) -> Option<Arc<ConversionWebhook>> {
    if text(definition, "/spec/conversion/strategy") != "Webhook" {
        return None;
    }
    let group = text(definition, "/spec/group");
    let schemas = versions.iter().filter_map(|v| Some((format!("{group}/{}", text(v, "/name")), schema(v)?)));
    let webhook = definition.pointer("/spec/conversion/webhook").unwrap_or(&Value::Null);
    Some(Arc::new(ConversionWebhook::new(conversions.cloned(), webhook, schemas.collect())))
}

fn schema(version: &Value) -> Option<Arc<SchemaSet>> {
    let empty = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let given = version.pointer("/schema/openAPIV3Schema").unwrap_or(&empty);
    match SchemaSet::from_crd(given, &FieldPath::new("spec.versions.schema.openAPIV3Schema")) {
        Ok(set) => Some(Arc::new(set)),
        Err(errors) => {
            let first = errors.first().map(ToString::to_string).unwrap_or_default();
            tracing::warn!(version = text(version, "/name"), error = first, "schema is not structural");
            None
        }
    }
}

fn row(
    definition: &Value,
    version: &Value,
    stored: &str,
    webhook: Option<Arc<ConversionWebhook>>,
) -> Option<Row> {
    let set = schema(version)?;
    let def = def(definition, version, stored);
    let gvk = def.gvk();
    let stored = GroupVersionKind::new(&def.group, stored, &def.kind);
    let status = def.subresource("status").is_some();
    let scale = version.pointer("/subresources/scale").filter(|s| s.is_object());
    let scale = scale.map(|scale| ScalePaths {
        spec_replicas: text(scale, "/specReplicasPath").to_owned(),
        status_replicas: text(scale, "/statusReplicasPath").to_owned(),
        selector: Some(text(scale, "/labelSelectorPath").to_owned()).filter(|p| !p.is_empty()),
    });
    Some(Row {
        rules: copepod_cel::rules::Rules::of(&set),
        schema: Schema::Custom(Arc::clone(&set)),
        working_schema: Schema::Custom(Arc::clone(&set)),
        stored_schema: Schema::Custom(set),
        stored_version: stored.api_version(),
        working: gvk,
        // Even the stored version: objects from before it was that are still stored in another.
        conversion: if webhook.is_some() { Conversion::Webhook } else { Conversion::ApiVersion },
        webhook,
        hooks: Arc::new(CustomHooks { status, scale: scale.clone() }),
        garbage: GarbagePolicy::DeleteDependents,
        returns_deleted: false,
        ttl: None,
        allocation: None,
        scale,
        complete_on_read: true,
        def: Arc::new(def),
    })
}

fn def(definition: &Value, version: &Value, stored: &str) -> ResourceDef {
    let group = text(definition, "/spec/group").to_owned();
    let names = definition.pointer("/status/acceptedNames").filter(|n| !text(n, "/plural").is_empty());
    let names = names.or_else(|| definition.pointer("/spec/names")).cloned().unwrap_or_default();
    let plural = text(definition, "/spec/names/plural").to_owned();
    let all = [
        Verb::Delete,
        Verb::DeleteCollection,
        Verb::Get,
        Verb::List,
        Verb::Patch,
        Verb::Create,
        Verb::Update,
        Verb::Watch,
    ];
    ResourceDef {
        version: text(version, "/name").to_owned(),
        kind: text(&names, "/kind").to_owned(),
        list_kind: text(&names, "/listKind").to_owned(),
        singular: text(&names, "/singular").to_owned(),
        short_names: strings(&names, "/shortNames"),
        categories: strings(&names, "/categories"),
        scope: if text(definition, "/spec/scope") == "Cluster" { Scope::Cluster } else { Scope::Namespaced },
        verbs: Verbs(all.to_vec()),
        subresources: subresources(version),
        storage_version_hash: version_hash(&group, stored, text(&names, "/kind")),
        storage_prefix: format!("{group}/{plural}"),
        storage_version: stored.to_owned(),
        schema: model_name(&group, text(version, "/name"), text(&names, "/kind")),
        proto: String::new(),
        selectable_fields: selectable(version),
        columns: columns(version),
        deprecation: deprecation(definition, version),
        custom: true,
        returns_deleted: false,
        group,
        plural,
    }
}

/// What requests for a deprecated version are told.
fn deprecation(definition: &Value, version: &Value) -> String {
    if version["deprecated"] != true {
        return String::new();
    }
    if let Some(own) = version.get("deprecationWarning").and_then(Value::as_str) {
        return own.to_owned();
    }
    let (group, kind) = (text(definition, "/spec/group"), text(definition, "/spec/names/kind"));
    let name = text(version, "/name");
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let better = versions
        .filter(|v| v["served"] == true && v["deprecated"] != true)
        .map(|v| text(v, "/name"))
        .filter(|other| version_rank(other) > version_rank(name))
        .max_by_key(|other| version_rank(other));
    let instead = better.map_or_else(String::new, |other| format!("; use {group}/{other} {kind}"));
    format!("{group}/{name} {kind} is deprecated{instead}")
}

/// What discovery shows so that clients notice a change of the stored version.
fn version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(digest.get(..8).unwrap_or_default())
}

fn subresources(version: &Value) -> Vec<Subresource> {
    let verbs = Verbs(vec![Verb::Get, Verb::Patch, Verb::Update]);
    let mut list = Vec::new();
    if version.pointer("/subresources/status").is_some_and(|s| !s.is_null()) {
        list.push(Subresource { name: "status".to_owned(), kind: None, verbs: verbs.clone() });
    }
    if version.pointer("/subresources/scale").is_some_and(|s| !s.is_null()) {
        let kind = Some(GroupVersionKind::new("autoscaling", "v1", "Scale"));
        list.push(Subresource { name: "scale".to_owned(), kind, verbs });
    }
    list
}

/// Fields as selectors name them (without the leading dot) and their paths.
fn selectable(version: &Value) -> Vec<(String, String)> {
    let list = version.get("selectableFields").and_then(Value::as_array).into_iter().flatten();
    list.map(|field| text(field, "/jsonPath"))
        .map(|path| (path.trim_start_matches('.').to_owned(), path.to_owned()))
        .collect()
}

fn columns(version: &Value) -> Vec<PrinterColumn> {
    let list = version.get("additionalPrinterColumns").and_then(Value::as_array).into_iter().flatten();
    list.map(|column| PrinterColumn {
        name: text(column, "/name").to_owned(),
        type_: text(column, "/type").to_owned(),
        format: text(column, "/format").to_owned(),
        description: text(column, "/description").to_owned(),
        priority: column["priority"].as_i64().and_then(|p| i32::try_from(p).ok()).unwrap_or(0),
        json_path: text(column, "/jsonPath").to_owned(),
    })
    .collect()
}
