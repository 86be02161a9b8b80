//! Managed fields of a write, through the schema crate.

use std::sync::LazyLock;

use copepod_api::{ApiResult, GroupVersion, GroupVersionKind, meta};
use copepod_schema::{
    SchemaRef,
    managed::{self, FieldSet, OneVersion, Request, Versions},
};
use serde_json::Value;

use crate::{
    convert::{self, Conversion},
    metadata::{self, time},
    request::RequestContext,
    row::Row,
};

/// Fields that endpoints reset.
struct Resets {
    nothing: FieldSet,
    spec: FieldSet,
    status: FieldSet,
    all_but_status: FieldSet,
    deployment_status: FieldSet,
    pod_status: FieldSet,
    request: FieldSet,
    request_status: FieldSet,
    request_approval: FieldSet,
}

static RESETS: LazyLock<Resets> = LazyLock::new(|| Resets {
    nothing: FieldSet::of(&[]),
    spec: FieldSet::of(&[&["spec"]]),
    status: FieldSet::of(&[&["status"]]),
    all_but_status: FieldSet::of(&[&["metadata"], &["spec"]]),
    deployment_status: FieldSet::of(&[&["metadata", "labels"], &["spec"]]),
    pod_status: FieldSet::of(&[
        &["metadata", "deletionTimestamp"],
        &["metadata", "ownerReferences"],
        &["spec"],
    ]),
    request: FieldSet::of(&[&["spec"], &["status"]]),
    request_status: FieldSet::of(&[&["spec"], &["status", "conditions"]]),
    request_approval: FieldSet::of(&[&["spec"], &["status", "certificate"]]),
});

/// Kinds whose status endpoint leaves metadata alone, as that of custom resources does.
const METADATA_KEPT: [&str; 10] = [
    "apiservices",
    "csinodes",
    "devicetaintrules",
    "flowschemas",
    "podcertificaterequests",
    "prioritylevelconfigurations",
    "resourceclaims",
    "servicecidrs",
    "storageversionmigrations",
    "validatingadmissionpolicies",
];

/// Whether a write of status changes nothing of metadata.
pub(crate) fn status_keeps_metadata(row: &Row) -> bool {
    row.def.custom
        || METADATA_KEPT.contains(&row.def.plural.as_str())
        || row.def.plural == "volumeattachments"
}

/// Fields that an endpoint resets, and so nobody comes to own through it.
fn reset(row: &Row, subresource: Option<&str>) -> &'static FieldSet {
    let resets = &*RESETS;
    match (row.def.plural.as_str(), subresource) {
        ("certificatesigningrequests", None) => &resets.request,
        ("certificatesigningrequests", Some("status")) => &resets.request_status,
        ("certificatesigningrequests", Some("approval")) => &resets.request_approval,
        ("deployments", Some("status")) => &resets.deployment_status,
        ("pods", Some("status")) => &resets.pod_status,
        (_, Some("status")) if status_keeps_metadata(row) => &resets.all_but_status,
        (_, Some("status")) => &resets.spec,
        ("namespaces", Some("finalize")) => &resets.status,
        (_, None) if row.has_status() => &resets.status,
        _ => &resets.nothing,
    }
}

/// The versions of a built-in kind, and of custom resources whose versions differ in name alone.
struct RowVersions<'r>(&'r Row);

impl Versions for RowVersions<'_> {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, SchemaRef<'_>)> {
        let mut other = object.clone();
        // Upstream knows the types of one group at a time: owners in another group's terms are forgotten.
        if GroupVersion::parse(api_version)?.group != self.0.def.group {
            return None;
        }
        if self.0.conversion == Conversion::ApiVersion {
            other["apiVersion"] = api_version.into();
            return Some((other, self.0.schema.root()));
        }
        convert::between(&mut other, api_version)?;
        let GroupVersion { group, version } = GroupVersion::parse(api_version)?;
        let schema = copepod_schema::builtin().kind(&group, &version, &self.0.def.kind)?;
        copepod_schema::canonical::canonicalize(&mut other, schema);
        Some((other, schema))
    }
}

fn with<T>(
    cx: &RequestContext,
    row: &Row,
    subresource: Option<&str>,
    run: impl FnOnce(&Request<'_>) -> T,
) -> T {
    let now = time(cx.now);
    run(&Request {
        schema: row.schema.root(),
        gvk: &row.def.gvk(),
        manager: &cx.field_manager,
        subresource: subresource.unwrap_or_default(),
        reset: reset(row, subresource),
        versions: &RowVersions(row),
        now: &now,
    })
}

/// Whether the pipeline works in another version than the request's, in which owners are recorded.
fn served(row: &Row, object: &Value) -> Option<Value> {
    (row.conversion == Conversion::Autoscaling).then(|| row.serve(object.clone()))
}

/// Records an ordinary write.
pub(crate) fn update(
    cx: &RequestContext,
    row: &Row,
    live: Option<&Value>,
    new: &mut Value,
    subresource: Option<&str>,
) {
    with(cx, row, subresource, |request| {
        let Some(mut object) = served(row, new) else { return managed::update(live, new, request) };
        let live = live.and_then(|live| served(row, live));
        managed::update(live.as_ref(), &mut object, request);
        let owners = object.pointer("/metadata/managedFields").cloned();
        metadata::set(meta::metadata_mut(new), "managedFields", owners);
    });
}

/// Merges an applied configuration, in the request's version, into the live object.
pub(crate) fn apply(
    cx: &RequestContext,
    row: &Row,
    live: Option<&Value>,
    config: &Value,
    subresource: Option<&str>,
    force: bool,
) -> ApiResult<Value> {
    with(cx, row, subresource, |request| {
        let other = live.and_then(|live| served(row, live));
        let mut object = managed::apply(other.as_ref().or(live), config, request, force)?;
        row.conversion.accept(&mut object);
        Ok(object)
    })
}

/// Records who sent a request that is an object, such as one for a token.
pub(crate) fn update_request(
    cx: &RequestContext,
    gvk: &GroupVersionKind,
    schema: SchemaRef<'_>,
    object: &mut Value,
    subresource: &str,
) {
    let now = time(cx.now);
    let request = Request {
        schema,
        gvk,
        manager: &cx.field_manager,
        subresource,
        reset: &RESETS.status,
        versions: &OneVersion,
        now: &now,
    };
    managed::update(None, object, &request);
}

/// Records an ordinary write of a Scale.
pub(crate) fn update_scale(cx: &RequestContext, live: &Value, new: &mut Value, scale: Scale<'_>) {
    scale.with(cx, |request| managed::update(Some(live), new, request));
}

/// Merges an applied Scale into the live one.
pub(crate) fn apply_scale(
    cx: &RequestContext,
    live: &Value,
    config: &Value,
    scale: Scale<'_>,
    force: bool,
) -> ApiResult<Value> {
    scale.with(cx, |request| managed::apply(Some(live), config, request, force))
}

/// The type of Scales.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale<'a> {
    pub(crate) gvk: &'a GroupVersionKind,
    pub(crate) schema: SchemaRef<'static>,
}

impl Scale<'_> {
    fn with<T>(self, cx: &RequestContext, run: impl FnOnce(&Request<'_>) -> T) -> T {
        let now = time(cx.now);
        run(&Request {
            schema: self.schema,
            gvk: self.gvk,
            manager: &cx.field_manager,
            subresource: "scale",
            reset: &RESETS.status,
            versions: &OneVersion,
            now: &now,
        })
    }
}

/// Drops a change of nothing but the record's timestamps.
pub(crate) fn keep_times(new: &mut Value, old: &Value) {
    managed::keep_timestamps(old, new);
}
