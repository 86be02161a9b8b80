//! `scale`: one view on every kind that has replicas.

use copepod_api::{
    ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupVersionKind, LabelSelector, meta,
};
use copepod_schema::{SchemaRef, patch as patches};
use serde_json::{Map, Value, json};

use crate::{
    codec,
    object::{Object, Written},
    ownership,
    request::{Body, Patch, PatchKind, RequestContext, Target},
    row::Row,
    store::{Change, Part, Store},
};

mod owners;

fn gvk() -> GroupVersionKind {
    GroupVersionKind::new("autoscaling", "v1", "Scale")
}

fn schema() -> ApiResult<SchemaRef<'static>> {
    let found = copepod_schema::builtin().kind("autoscaling", "v1", "Scale");
    found.ok_or_else(|| ApiError::internal("no schema of Scale"))
}

/// The Scale of an object.
pub(crate) fn read(row: &Row, object: &Value) -> ApiResult<Value> {
    if let Some(paths) = &row.scale
        && at(object, &paths.spec_replicas).is_none()
    {
        let text = format!("the spec replicas field {:?} does not exist", paths.spec_replicas);
        return Err(ApiError::internal(text));
    }
    Ok(scale_of(row, object))
}

fn at(object: &Value, path: &str) -> Option<Value> {
    json_path(path).iter().try_fold(object, |at, step| at.get(step.as_str())).cloned()
}

/// The Scale of an object; a size that was never given counts as none.
fn scale_of(row: &Row, object: &Value) -> Value {
    let at = |path: &str| at(object, path);
    let (spec, status, selector) = match &row.scale {
        Some(paths) => {
            let selector = paths.selector.as_deref().and_then(at).and_then(|s| s.as_str().map(str::to_owned));
            (at(&paths.spec_replicas), at(&paths.status_replicas), selector)
        }
        None => (at("spec.replicas"), at("status.replicas"), Some(selector(row, object))),
    };
    let metadata = object.get("metadata").and_then(Value::as_object);
    let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: Map<String, Value> =
        kept.iter().filter_map(|field| Some(((*field).to_owned(), metadata?.get(*field)?.clone()))).collect();
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {},
        "status": {"replicas": status.unwrap_or_else(|| 0.into())},
    });
    if let Some(replicas) = spec.filter(|replicas| *replicas != 0) {
        scale["spec"]["replicas"] = replicas;
    }
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

fn selector(row: &Row, object: &Value) -> String {
    let given = object.pointer("/spec/selector");
    if row.def.plural == "replicationcontrollers" {
        return LabelSelector::from_map(given).to_string();
    }
    LabelSelector::from_object(given).map(|selector| selector.to_string()).unwrap_or_default()
}

/// The steps of a simple JSON path such as `.spec.replicas`.
fn json_path(path: &str) -> Vec<String> {
    path.trim_start_matches('.').split('.').map(str::to_owned).collect()
}

/// PUT of a Scale.
pub(crate) async fn update(
    store: &Store,
    cx: &RequestContext,
    target: &Target,
    body: &Body,
) -> ApiResult<Written> {
    let scale = codec::decode_as(cx, body, &gvk(), schema()?)?;
    if meta::name(&scale) != target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            meta::name(&scale),
            target.name
        )));
    }
    let schema = schema()?;
    write(store, cx, target, &|current| Ok(recorded(cx, schema, current, scale.clone()))).await
}

/// A Scale that was put or patched, with its owners.
fn recorded(cx: &RequestContext, schema: SchemaRef<'static>, current: &Value, mut new: Value) -> Value {
    ownership::update_scale(cx, current, &mut new, ownership::Scale { gvk: &gvk(), schema });
    new
}

/// PATCH of a Scale.
pub(crate) async fn patch(
    store: &Store,
    cx: &RequestContext,
    target: &Target,
    patch: &Patch,
) -> ApiResult<Written> {
    let schema = schema()?;
    let type_ = match patch.kind {
        PatchKind::Json => patches::PatchType::Json,
        PatchKind::Merge => patches::PatchType::Merge,
        PatchKind::Strategic => patches::PatchType::Strategic,
        PatchKind::Apply => {
            let (config, twice) = codec::applied(&patch.body)?;
            let gvk = gvk();
            let type_ = ownership::Scale { gvk: &gvk, schema };
            return write(store, cx, target, &|current| {
                let scale = ownership::apply_scale(cx, current, &config, type_, patch.force)?;
                codec::complain(cx, twice.as_deref())?;
                Ok(scale)
            })
            .await;
        }
    };
    write(store, cx, target, &|current| {
        let patched = patches::apply(type_, current, &patch.body, schema, cx.field_validation, |_| None)?;
        Ok(recorded(cx, schema, current, patched.object))
    })
    .await
}

/// Sets the replicas that `make` puts into the current Scale.
async fn write(
    store: &Store,
    cx: &RequestContext,
    target: &Target,
    make: &(dyn Fn(&Value) -> ApiResult<Value> + Send + Sync),
) -> ApiResult<Written> {
    let row = &store.row;
    let change = |old: Option<&Value>| {
        let old = old.ok_or_else(|| store.not_found(&target.name))?;
        let path =
            json_path(row.scale.as_ref().map_or("spec.replicas", |paths| paths.spec_replicas.as_str()));
        let mut current = scale_of(row, old);
        owners::give(&mut current, old, &path);
        let scale = make(&current)?;
        let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
        if !row.def.custom {
            validate(replicas, &target.name)?;
        }
        let (uid, version) = (meta::uid(&scale), meta::resource_version(&scale));
        super::check_preconditions(store, target, old, uid, "")?;
        let mut new = old.clone();
        set(&mut new, &path, replicas.into());
        owners::take(&mut new, &scale, &path);
        // A Scale that names no version is of the custom resource as it is.
        if !(row.def.custom && version.is_empty()) {
            meta::metadata_mut(&mut new).insert("resourceVersion".to_owned(), version.into());
        }
        Ok(new)
    };
    let whole = Target { subresource: None, ..target.clone() };
    let change =
        Change { target: &whole, part: Part::Sub("scale"), make: &change, create: false, owned: true };
    let written = Box::pin(store.change(cx, &change)).await?;
    let object = written.object.into_value();
    let mut working = object;
    row.conversion.accept(&mut working);
    Ok(Written { object: Object::other(read(row, &working)?), created: false })
}

fn validate(replicas: i64, name: &str) -> ApiResult<()> {
    if replicas >= 0 {
        return Ok(());
    }
    let field = FieldPath::new("spec").child("replicas");
    let errors: FieldErrors =
        vec![FieldError::invalid(&field, replicas, "must be greater than or equal to 0")];
    Err(ApiError::invalid(&gvk(), name, &errors))
}

fn set(object: &mut Value, path: &[String], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let Some(mut at) = object.as_object_mut() else { return };
    for step in parents {
        at = meta::child_mut(at, step);
    }
    at.insert(last.clone(), value);
}
