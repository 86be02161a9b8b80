//! Tables and partial metadata: what `kubectl get` and metadata clients ask for.

use copepod_api::{ApiError, ApiResult, ResourceDef};
use serde_json::{Value, json};

use crate::server::Call;

/// What a Table's rows carry of their objects (`includeObject`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Include {
    /// Their metadata.
    Metadata,
    /// Nothing.
    None,
    /// All.
    Object,
}

impl Include {
    /// Reads the query parameter.
    pub(super) fn of(call: &Call) -> ApiResult<Self> {
        match call.query.text("includeObject") {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', \
                 'Object', 'None', or empty",
                copepod_api::field::quote(other)
            ))),
        }
    }
}

/// `PartialObjectMetadata` of an object.
pub(super) fn partial(def: &ResourceDef, object: &Value) -> Value {
    let mut metadata = object.get("metadata").cloned().unwrap_or_default();
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        copepod_registry::served_annotations(def).iter().for_each(|name| drop(annotations.remove(*name)));
        if annotations.is_empty()
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.remove("annotations");
        }
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// `PartialObjectMetadataList` of objects and their list's metadata.
pub(super) fn partial_list(def: &ResourceDef, objects: &[Value], metadata: &Value) -> Value {
    let items: Vec<Value> = objects.iter().map(|object| partial(def, object)).collect();
    json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items,
    })
}

/// The Table of objects for a request.
pub(super) fn of_objects(
    def: &ResourceDef,
    call: &Call,
    objects: &[Value],
    metadata: &Value,
) -> ApiResult<Value> {
    let include = Include::of(call)?;
    Ok(render(def, include, objects, metadata))
}

/// The Table of objects. The metadata of a single object's Table names its resource version.
pub(super) fn render(def: &ResourceDef, include: Include, objects: &[Value], metadata: &Value) -> Value {
    let references: Vec<&Value> = objects.iter().collect();
    let table = copepod_registry::printers::table(def, &references, copepod_sys::clock::now());
    let metadata = match (metadata.get("resourceVersion"), objects) {
        (None, [one]) => json!({"resourceVersion": copepod_api::meta::resource_version(one)}),
        _ => metadata.clone(),
    };
    let rows: Vec<Value> = table
        .rows
        .iter()
        .map(|row| {
            let object = objects.get(row.object).unwrap_or(&Value::Null);
            let mut out = json!({"cells": row.cells});
            if !row.conditions.is_empty() {
                out["conditions"] = json!(row.conditions);
            }
            out["object"] = match include {
                Include::Metadata => partial(def, object),
                Include::None => Value::Null,
                Include::Object => object.clone(),
            };
            out
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": table.column_definitions(), "rows": rows,
    })
}
