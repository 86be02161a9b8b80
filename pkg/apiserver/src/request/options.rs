//! Query options and bodies of options, checked as upstream checks them.

use bytes::Bytes;
use copepod_api::{ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupVersionKind};
use copepod_registry::{DeleteOptions, FieldValidation, ListOptions, PatchKind};
use copepod_schema::decode::{self, TypeMeta};
use serde_json::Value;

use super::Query;

/// `ListOptions` of a list, watch or delete-collection.
pub(crate) fn list_options(query: &Query) -> ApiResult<ListOptions> {
    let text = |key: &str| query.text(key).to_owned();
    Ok(ListOptions {
        label_selector: text("labelSelector"),
        field_selector: text("fieldSelector"),
        resource_version: text("resourceVersion"),
        resource_version_match: text("resourceVersionMatch"),
        limit: query.int("limit")?.unwrap_or(0),
        continue_: text("continue"),
        allow_watch_bookmarks: query.flag("allowWatchBookmarks"),
        send_initial_events: query.bool("sendInitialEvents"),
        timeout_seconds: query.int("timeoutSeconds")?.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0),
    })
}

/// What create, update and patch share.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteOptions {
    /// `dryRun=All`.
    pub dry_run: bool,
    /// `fieldManager`, empty when not given.
    pub field_manager: String,
    /// `fieldValidation`.
    pub field_validation: FieldValidation,
    /// `force` of an apply.
    pub force: bool,
}

impl WriteOptions {
    /// Reads and checks the options of a create (`kind` is `CreateOptions`) or update.
    pub(crate) fn read(query: &Query, kind: &str) -> ApiResult<Self> {
        let mut errors = FieldErrors::new();
        let options = Self::collect(query, &mut errors);
        options.or_invalid(kind, &errors)
    }

    /// Reads and checks the options of a patch.
    pub(crate) fn read_patch(query: &Query, patch: PatchKind) -> ApiResult<Self> {
        let mut errors = FieldErrors::new();
        if patch == PatchKind::Apply {
            if query.text("fieldManager").is_empty() {
                errors.push(FieldError::required(
                    &FieldPath::new("fieldManager"),
                    "is required for apply patch",
                ));
            }
        } else if query.get("force").is_some() {
            errors.push(FieldError::forbidden(
                &FieldPath::new("force"),
                "may not be specified for non-apply patch",
            ));
        }
        let options = Self::collect(query, &mut errors);
        options.or_invalid("PatchOptions", &errors)
    }

    fn collect(query: &Query, errors: &mut FieldErrors) -> Self {
        let manager = query.text("fieldManager");
        let path = FieldPath::new("fieldManager");
        if manager.len() > 128 {
            errors.push(FieldError::too_long(&path, 128));
        }
        for (at, c) in manager.char_indices().filter(|(_, c)| c.is_control()) {
            let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(c));
            errors.push(FieldError::invalid(&path, manager, detail));
        }
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        check_dry_run(&dry_run, errors);
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = &["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported(&FieldPath::new("fieldValidation"), other, supported));
                FieldValidation::Warn
            }
        };
        Self {
            dry_run: !dry_run.is_empty(),
            field_manager: manager.to_owned(),
            field_validation,
            force: query.flag("force"),
        }
    }

    fn or_invalid(self, kind: &str, errors: &FieldErrors) -> ApiResult<Self> {
        if errors.is_empty() { Ok(self) } else { Err(invalid(kind, errors)) }
    }
}

fn check_dry_run(values: &[&str], errors: &mut FieldErrors) {
    if values.iter().any(|v| *v != "All") {
        let list: Vec<Value> = values.iter().map(|v| Value::from(*v)).collect();
        errors.push(FieldError::not_supported(&FieldPath::new("dryRun"), Value::Array(list), &["All"]));
    }
}

fn invalid(kind: &str, errors: &FieldErrors) -> ApiError {
    ApiError::invalid(&GroupVersionKind::new("meta.k8s.io", "v1", kind), "", errors)
}

/// `DeleteOptions` from the body or, when there is none, from the query; and whether it is a dry run.
pub(crate) fn delete_options(body: &Bytes, query: &Query) -> ApiResult<(DeleteOptions, bool)> {
    let value = if body.is_empty() { delete_query(query)? } else { delete_body(body)? };
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("propagationPolicy");
    let policy = value.get("propagationPolicy").and_then(Value::as_str);
    if let Some(policy) = policy {
        if !value.get("orphanDependents").is_none_or(Value::is_null) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(&path, policy, detail));
        }
        if !matches!(policy, "Foreground" | "Background" | "Orphan") {
            let supported = &["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(&path, policy, supported));
        }
    }
    let dry_run: Vec<&str> = value
        .get("dryRun")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    check_dry_run(&dry_run, &mut errors);
    if !errors.is_empty() {
        return Err(invalid("DeleteOptions", &errors));
    }
    let dry_run = !dry_run.is_empty();
    let options = serde_json::from_value(value).map_err(|e| ApiError::bad_request(e.to_string()))?;
    Ok((options, dry_run))
}

fn delete_body(body: &Bytes) -> ApiResult<Value> {
    let head = TypeMeta::read(body).map_err(ApiError::bad_request)?;
    if !matches!(head.kind.as_str(), "" | "DeleteOptions") {
        return Err(ApiError::bad_request(format!(
            "no kind {:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
            head.kind, head.api_version
        )));
    }
    let schema =
        copepod_schema::protobuf::schema_of("v1", "DeleteOptions").expect("DeleteOptions are built in");
    let decoded = decode::decode(body, schema, FieldValidation::Ignore);
    decoded.map(|decoded| decoded.object).map_err(|error| ApiError::bad_request(error.to_string()))
}

fn delete_query(query: &Query) -> ApiResult<Value> {
    let mut map = serde_json::Map::new();
    if let Some(seconds) = query.int("gracePeriodSeconds")? {
        map.insert("gracePeriodSeconds".to_owned(), seconds.into());
    }
    if let Some(orphan) = query.bool("orphanDependents") {
        map.insert("orphanDependents".to_owned(), orphan.into());
    }
    if let Some(policy) = query.get("propagationPolicy").filter(|p| !p.is_empty()) {
        map.insert("propagationPolicy".to_owned(), policy.into());
    }
    let dry_run: Vec<Value> = query.all("dryRun").map(Value::from).collect();
    if !dry_run.is_empty() {
        map.insert("dryRun".to_owned(), Value::Array(dry_run));
    }
    Ok(Value::Object(map))
}

#[cfg(test)]
mod tests {
    use copepod_registry::Propagation;

    use super::*;

    #[test]
    fn delete_options_from_both_places() {
        let query = Query::parse("gracePeriodSeconds=0&propagationPolicy=Orphan&dryRun=All");
        let (options, dry_run) = delete_options(&Bytes::new(), &query).unwrap();
        assert_eq!((options.grace_period_seconds, dry_run), (Some(0), true));
        assert_eq!(options.propagation_policy, Some(Propagation::Orphan));
        let body = Bytes::from_static(
            br#"{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u"},"orphanDependents":null}"#,
        );
        let (options, dry_run) = delete_options(&body, &query).unwrap();
        assert_eq!(options.preconditions.unwrap().uid.as_deref(), Some("u"));
        assert!(!dry_run);
        let bad = Query::parse("propagationPolicy=Sideways");
        let error = delete_options(&Bytes::new(), &bad).unwrap_err();
        assert_eq!(error.code(), 422);
        assert!(
            error.to_string().starts_with("DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy:")
        );
    }

    #[test]
    fn write_options_are_checked() {
        let query = Query::parse("fieldValidation=Loud&dryRun=Some");
        let error = WriteOptions::read(&query, "CreateOptions").unwrap_err();
        assert_eq!(error.status().details.as_ref().unwrap().causes.len(), 2);
        let apply = WriteOptions::read_patch(&Query::default(), PatchKind::Apply).unwrap_err();
        assert!(apply.to_string().contains("fieldManager: Required value: is required for apply patch"));
        let force = WriteOptions::read_patch(&Query::parse("force=true"), PatchKind::Merge).unwrap_err();
        assert!(force.to_string().contains("may not be specified for non-apply patch"));
    }
}
