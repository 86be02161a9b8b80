//! Managed fields of a write, through the schema crate.

use std::sync::LazyLock;

use copepod_api::ApiResult;
use copepod_schema::managed::{self, FieldSet, OneVersion, Request};
use serde_json::Value;

use crate::{metadata::time, request::RequestContext, row::Row};

static NOTHING: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[]));
static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["status"]]));
static SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["spec"]]));

/// Fields that an endpoint resets, and so nobody comes to own through it.
fn reset(row: &Row, subresource: Option<&str>) -> &'static FieldSet {
    match subresource {
        None if row.has_status() => &STATUS,
        Some("status" | "approval") => &SPEC,
        _ => &NOTHING,
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
        schema: row.working_schema.root(),
        gvk: &row.working,
        manager: &cx.field_manager,
        subresource: subresource.unwrap_or_default(),
        reset: reset(row, subresource),
        versions: &OneVersion,
        now: &now,
    })
}

/// Records an ordinary write.
pub(crate) fn update(
    cx: &RequestContext,
    row: &Row,
    live: Option<&Value>,
    new: &mut Value,
    subresource: Option<&str>,
) {
    with(cx, row, subresource, |request| managed::update(live, new, request));
}

/// Merges an applied configuration into the live object.
pub(crate) fn apply(
    cx: &RequestContext,
    row: &Row,
    live: Option<&Value>,
    config: &Value,
    subresource: Option<&str>,
    force: bool,
) -> ApiResult<Value> {
    with(cx, row, subresource, |request| managed::apply(live, config, request, force))
}

/// Drops a change of nothing but the record's timestamps.
pub(crate) fn keep_times(new: &mut Value, old: &Value) {
    managed::keep_timestamps(old, new);
}
