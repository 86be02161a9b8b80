//! Decoding and encoding by schema: the one door to the schema crate's codecs.

use bytes::Bytes;
use copepod_api::{ApiError, ApiResult, FieldError, FieldPath, GroupVersion, GroupVersionKind, ResourceDef};
use copepod_schema::{
    SchemaRef,
    decode::{self, TypeMeta, Yaml},
    encode as encoder,
};
use serde_json::Value;

use crate::request::{Body, FieldValidation, RequestContext};
use crate::row::Schema;

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
    let custom = !schema.is_typed();
    let decoded = match body {
        Body::Json(bytes) => {
            check_type(TypeMeta::read(bytes), bytes, gvk, custom)?;
            decode::decode(bytes, schema, cx.field_validation)
        }
        Body::Yaml(bytes) => {
            let parsed = decode::yaml(bytes);
            let head =
                parsed.as_ref().map_err(Clone::clone).and_then(|Yaml { value, .. }| TypeMeta::of(value));
            check_type(head, bytes, gvk, custom)?;
            decode::decode_yaml(&parsed.unwrap_or_default(), schema, cx.field_validation)
        }
        Body::Value(value) => {
            check_type(TypeMeta::of(value), &[], gvk, false)?;
            decode::decode_value(value, schema, cx.field_validation)
        }
    };
    let decoded = decoded.map_err(|error| error.to_api_error(gvk))?;
    decoded.warnings.iter().for_each(|warning| warn(cx, warning));
    let mut object = decoded.object;
    set_type(&mut object, gvk);
    Ok(object)
}

/// A warning of strict decoding; what the YAML parser found is one a line.
fn warn(cx: &RequestContext, text: &str) {
    let bare = text.strip_prefix("error converting YAML to JSON: ").unwrap_or(text);
    match bare.strip_prefix("yaml: unmarshal errors:\n") {
        Some(lines) => lines.lines().for_each(|line| cx.warnings.add(line.trim())),
        None => cx.warnings.add(text),
    }
}

/// Says of an object what it is.
pub(crate) fn set_type(object: &mut Value, gvk: &GroupVersionKind) {
    if let Some(map) = object.as_object_mut() {
        map.insert("kind".to_owned(), gvk.kind.clone().into());
        map.insert("apiVersion".to_owned(), gvk.api_version().into());
    }
}

/// A body must say that it is of kind `gvk`, or nothing; that of a custom resource must say its kind.
fn check_type(
    head: Result<TypeMeta, String>,
    body: &[u8],
    gvk: &GroupVersionKind,
    custom: bool,
) -> ApiResult<()> {
    let head = head.map_err(|why| unrecognized(&why, body, gvk))?;
    if custom && head.kind.is_empty() {
        let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body));
        return Err(unrecognized(&why, body, gvk));
    }
    if custom && head.api_version.is_empty() {
        let why = format!(
            "the API version in the data () does not match the expected API version ({})",
            gvk.api_version()
        );
        return Err(ApiError::bad_request(why));
    }
    if is_of_type(&head, gvk) {
        return Ok(());
    }
    if custom && head.api_version == gvk.api_version() {
        let why = format!("must be {}", gvk.kind);
        let error = FieldError::invalid(&FieldPath::new("kind"), head.kind.as_str(), why);
        let given = GroupVersionKind { kind: head.kind, ..gvk.clone() };
        let name = serde_json::from_slice::<Value>(body).unwrap_or_default();
        return Err(ApiError::invalid(&given, copepod_api::meta::name(&name), &vec![error]));
    }
    Err(ApiError::bad_request(wrong_type(&head, gvk)))
}

/// What a body does not say of its type is taken for what it should be.
fn is_of_type(head: &TypeMeta, gvk: &GroupVersionKind) -> bool {
    let or = |text: &str, wanted: &str| text.is_empty() || text == wanted;
    or(&head.kind, &gvk.kind) && or(&head.api_version, &gvk.api_version())
}

/// What is wrong with a tree of another type than `gvk`; `None` where it is of that type. A known type is decoded as
/// what it is first.
pub(crate) fn type_mismatch(value: &Value, gvk: &GroupVersionKind) -> Option<String> {
    let head = match TypeMeta::of(value) {
        Ok(head) if is_of_type(&head, gvk) => return None,
        Ok(head) => head,
        Err(why) => return Some(why),
    };
    let GroupVersion { group, version } = GroupVersion::parse(&head.api_version).unwrap_or_default();
    let known = copepod_schema::builtin().kind(&group, &version, &head.kind);
    let decoded = known.map(|schema| decode::decode_value(value, schema, FieldValidation::Ignore));
    match decoded {
        Some(Err(error)) => Some(error.to_string()),
        _ => Some(conversion_error(&head, gvk)),
    }
}

/// The most of a body that a refusal shows.
const SHOWN: usize = 30;

/// The refusal of a body that does not even say what it is.
fn unrecognized(why: &str, body: &[u8], gvk: &GroupVersionKind) -> ApiError {
    let head = body.get(..SHOWN).unwrap_or(body);
    let more = if body.len() > SHOWN { " ..." } else { "" };
    let shown = match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(head).into_owned(),
        Some(_) => hex::encode(head),
    };
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({shown}{more})",
        gvk.kind
    ))
}

/// Where upstream's scheme of built-in kinds is made, which its texts name.
const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// Upstream's text for a body of another type than the path's.
fn wrong_type(head: &TypeMeta, wanted: &GroupVersionKind) -> String {
    let why = conversion_error(head, wanted);
    if copepod_schema::builtin().kind(&wanted.group, &wanted.version, &wanted.kind).is_none() {
        return why;
    }
    let kind = if head.kind.is_empty() { wanted.kind.as_str() } else { &head.kind };
    let version = match GroupVersion::parse(&head.api_version) {
        Some(found) if !head.api_version.is_empty() => found.version,
        _ => wanted.version.clone(),
    };
    format!("{kind} in version {version:?} cannot be handled as a {}: {why}", wanted.kind)
}

/// Why what a head names is not of the wanted type.
fn conversion_error(head: &TypeMeta, wanted: &GroupVersionKind) -> String {
    let version = wanted.api_version();
    let kind = if head.kind.is_empty() { wanted.kind.as_str() } else { &head.kind };
    let api_version = if head.api_version.is_empty() { version.as_str() } else { &head.api_version };
    if copepod_schema::builtin().kind(&wanted.group, &wanted.version, &wanted.kind).is_none() {
        return format!(
            "the API version in the data ({api_version}) does not match the expected API version ({version})"
        );
    }
    let found = GroupVersion::parse(api_version).unwrap_or_default();
    if copepod_schema::builtin().kind(&found.group, &found.version, kind).is_none() {
        return format!("no kind {kind:?} is registered for version {api_version:?} in scheme {SCHEME:?}");
    }
    let group = match wanted.group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    };
    format!("converting ({}.{kind}) to ({group}.{}): unknown conversion", found.version, wanted.kind)
}

/// The object as compact JSON in the schema's field order, `kind` and `apiVersion` first.
pub(crate) fn encode(object: &Value, schema: SchemaRef<'_>) -> Vec<u8> {
    encoder::encode(object, schema)
}

/// A list, or an object that holds something.
fn shows_fields(value: &Value) -> bool {
    value.is_array() || value.as_object().is_some_and(|map| !map.is_empty())
}

/// An error that shows an object or a list shows it in the order of its struct.
pub(crate) fn shown_in_order(error: &FieldError, schema: SchemaRef<'_>) -> FieldError {
    let error = error.clone();
    let Some(value) = error.value.as_ref().filter(|value| shows_fields(value)) else {
        return error;
    };
    let Some(schema) = schema.at_path(error.field.as_str()) else { return error };
    let plain = || String::from_utf8_lossy(&encode(value, schema)).into_owned();
    let text = encoder::internal(value, schema).unwrap_or_else(plain);
    error.showing(text)
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

/// An applied configuration: YAML (or JSON) without pruning, which the merge checks itself; and what is to be said of
/// keys given twice once it is merged.
pub(crate) fn applied(body: &Bytes) -> ApiResult<(Value, Option<String>)> {
    let parsed = decode::yaml(body).map_err(|why| {
        ApiError::bad_request(if body.trim_ascii_start().starts_with(b"{") {
            format!("error decoding patch: error converting YAML to JSON: {why}")
        } else {
            format!("error encoding patch: {why}")
        })
    })?;
    let twice = parsed.strict_error().map(|why| format!("error converting YAML to JSON: {why}"));
    match parsed.value {
        value @ Value::Object(_) => Ok((value, twice)),
        Value::Null => Ok((Value::Object(serde_json::Map::new()), twice)),
        other => Err(ApiError::bad_request(format!(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value \
             of type map[string]interface {{}}",
            copepod_schema::patch::type_name(&other)
        ))),
    }
}

/// Complains of keys given twice in an applied configuration.
pub(crate) fn complain(cx: &RequestContext, twice: Option<&str>) -> ApiResult<()> {
    match (twice, cx.field_validation) {
        (Some(why), FieldValidation::Strict) => {
            Err(ApiError::bad_request(format!("error strict decoding patch: {why}")))
        }
        (Some(why), FieldValidation::Warn) => {
            warn(cx, why);
            Ok(())
        }
        _ => Ok(()),
    }
}
