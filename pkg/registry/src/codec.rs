//! Decoding and encoding by schema: the one door to the schema crate's codecs.

use bytes::Bytes;
use copepod_api::{ApiError, ApiResult, GroupVersion, GroupVersionKind, ResourceDef};
use copepod_schema::{SchemaRef, decode, encode as encoder};
use serde::Deserialize;
use serde_json::Value;

use crate::request::{Body, FieldValidation, RequestContext};
use crate::row::Schema;

/// Type information of a body, read before anything else.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct TypeMeta {
    kind: Option<String>,
    api_version: Option<String>,
}

/// Decodes a body of the row's kind: strict checks, canonical form, type information filled in.
pub(crate) fn body(
    cx: &RequestContext,
    body: &Body,
    def: &ResourceDef,
    schema: SchemaRef<'_>,
) -> ApiResult<Value> {
    decode_as(cx, body, &def.gvk(), schema)
}

/// Decodes a body that is to be of kind `gvk`.
pub(crate) fn decode_as(
    cx: &RequestContext,
    body: &Body,
    gvk: &GroupVersionKind,
    schema: SchemaRef<'_>,
) -> ApiResult<Value> {
    check_type(body, gvk)?;
    let decoded = match body {
        Body::Json(bytes) => decode::decode(bytes, schema, cx.field_validation),
        Body::Yaml(bytes) => {
            let value = yaml(bytes)?;
            decode::decode_value(&value, schema, cx.field_validation)
        }
        Body::Value(value) => decode::decode_value(value, schema, cx.field_validation),
    };
    let decoded = decoded.map_err(|error| error.to_api_error(gvk))?;
    for warning in decoded.warnings {
        cx.warnings.add(warning);
    }
    let mut object = decoded.object;
    if let Some(map) = object.as_object_mut() {
        map.insert("kind".to_owned(), gvk.kind.clone().into());
        map.insert("apiVersion".to_owned(), gvk.api_version().into());
    }
    Ok(object)
}

fn yaml(bytes: &Bytes) -> ApiResult<Value> {
    let text =
        std::str::from_utf8(bytes).map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))?;
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))
}

fn check_type(body: &Body, gvk: &GroupVersionKind) -> ApiResult<()> {
    let type_meta = match body {
        Body::Json(bytes) => serde_json::from_slice::<TypeMeta>(bytes).unwrap_or_default(),
        Body::Yaml(bytes) => TypeMeta::deserialize(yaml(bytes)?).unwrap_or_default(),
        Body::Value(value) => TypeMeta::deserialize(value).unwrap_or_default(),
    };
    let version = type_meta.api_version.filter(|v| !v.is_empty()).unwrap_or_else(|| gvk.api_version());
    let kind = type_meta.kind.filter(|kind| !kind.is_empty()).unwrap_or_else(|| gvk.kind.clone());
    if kind == gvk.kind && version == gvk.api_version() {
        return Ok(());
    }
    Err(ApiError::bad_request(wrong_type(&kind, &version, gvk)))
}

/// Where upstream's scheme of built-in kinds is made, which its texts name.
const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// Upstream's text for a body of another type than the path's.
pub(crate) fn wrong_type(kind: &str, api_version: &str, wanted: &GroupVersionKind) -> String {
    let found = GroupVersion::parse(api_version).unwrap_or_default();
    let head = format!("{kind} in version {:?} cannot be handled as a {}", found.version, wanted.kind);
    if copepod_schema::builtin().kind(&wanted.group, &wanted.version, &wanted.kind).is_none() {
        return format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            wanted.api_version()
        );
    }
    if copepod_schema::builtin().kind(&found.group, &found.version, kind).is_none() {
        return format!(
            "{head}: no kind {kind:?} is registered for version {api_version:?} in scheme {SCHEME:?}"
        );
    }
    let group = |group: &str| match group.split('.').next() {
        None | Some("") => "core".to_owned(),
        Some(first) => first.to_owned(),
    };
    let (version, wanted_group) = (&found.version, group(&wanted.group));
    format!("{head}: converting ({version}.{kind}) to ({wanted_group}.{}): unknown conversion", wanted.kind)
}

/// The object as compact JSON in the schema's field order, `kind` and `apiVersion` first.
pub(crate) fn encode(object: &Value, schema: SchemaRef<'_>) -> Vec<u8> {
    encoder::encode(object, schema)
}

/// Adds declared defaults.
pub(crate) fn default(object: &mut Value, schema: SchemaRef<'_>) {
    copepod_schema::defaults::apply(object, schema);
}

/// What strategies leave out, Go's encoder writes: counts that are zero, structs that are empty.
pub(crate) fn canonical(object: &mut Value, schema: &Schema) {
    if let Schema::Builtin(schema) = schema {
        copepod_schema::canonical::canonicalize(object, *schema);
    }
}

/// Makes a stored object of an older schema fit this one: unknown fields go, defaults come.
pub(crate) fn complete(object: &mut Value, schema: SchemaRef<'_>) {
    copepod_schema::defaults::prune(object, schema);
    copepod_schema::defaults::apply(object, schema);
}

/// Decodes an object made by the server or admission once more, without complaints.
pub(crate) fn normalize(object: &Value, gvk: &GroupVersionKind, schema: SchemaRef<'_>) -> ApiResult<Value> {
    let decoded = decode::decode_value(object, schema, FieldValidation::Ignore);
    decoded.map(|decoded| decoded.object).map_err(|error| error.to_api_error(gvk))
}

/// An applied configuration: YAML (or JSON) without pruning, which the merge checks itself.
pub(crate) fn applied(cx: &RequestContext, body: &Bytes) -> ApiResult<Value> {
    let parsed = decode::yaml(body)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    match (parsed.strict_error(), cx.field_validation) {
        (Some(error), FieldValidation::Strict) => {
            return Err(ApiError::bad_request(format!("error strict decoding patch: {error}")));
        }
        (Some(error), FieldValidation::Warn) => cx.warnings.add(error),
        _ => {}
    }
    if parsed.value.is_object() {
        return Ok(parsed.value);
    }
    Err(ApiError::bad_request("error decoding patch: the configuration is not an object"))
}
