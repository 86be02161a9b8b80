//! Label and field selectors as filters over entries.

use std::{borrow::Cow, sync::Arc};

use copepod_api::{ApiError, ApiResult, FieldSelector, LabelSelector};
use copepod_store::{Entry, Filter};
use serde_json::Value;

use crate::{kinds, request::ListOptions, row::Row};

/// Where a selectable field's value comes from.
#[derive(Debug, Clone)]
enum Source {
    Name,
    Namespace,
    /// A path below the object, and what an absent value reads as.
    Path(Vec<String>, String),
}

/// What a list or watch selects.
pub(super) struct Selection {
    pub(super) filter: Filter,
    /// What can be told only of converted entries: fields inside objects that a webhook converts.
    pub(super) late: Filter,
    /// The one name that can match, from `metadata.name=`.
    pub(super) name: Option<String>,
    /// The one namespace that can match, from `metadata.namespace=`.
    pub(super) namespace: Option<String>,
}

/// Reads the selectors of a request.
pub(super) fn selection(row: &Arc<Row>, options: &ListOptions) -> ApiResult<Selection> {
    let bad = |error: copepod_api::selector::SelectorError| ApiError::bad_request(error.to_string());
    let labels = LabelSelector::parse(&options.label_selector).map_err(bad)?;
    let fields = FieldSelector::parse(&options.field_selector).map_err(bad)?;
    let mut sources = Vec::with_capacity(fields.terms.len());
    for term in &fields.terms {
        sources.push(source(row, &term.field)?);
    }
    let name = fields.required("metadata.name").map(str::to_owned);
    let namespace = fields.required("metadata.namespace").map(str::to_owned);
    if labels.is_empty() && fields.is_empty() {
        return Ok(Selection { filter: None, late: None, name, namespace });
    }
    let inside = sources.iter().any(|source| matches!(source, Source::Path(..)));
    let (row, late) = (Arc::clone(row), row.webhook.is_some() && inside);
    let fields = Arc::new(move |entry: &Entry| fields_match(&row, entry, &fields, &sources));
    let late: Filter = late.then(|| Arc::clone(&fields) as Arc<dyn Fn(&Entry) -> bool + Send + Sync>);
    let now = late.is_none();
    let filter = move |entry: &Entry| labels.matches(&entry.labels()) && (!now || fields(entry));
    Ok(Selection { filter: Some(Arc::new(filter)), late, name, namespace })
}

fn source(row: &Row, label: &str) -> ApiResult<Source> {
    let def = &row.def;
    // Kinds of the cluster that say which fields they know do not name the namespace.
    let spaceless = !def.namespaced() && !kinds::selectable_fields(&def.group, &def.plural).is_empty();
    match label {
        "metadata.name" => return Ok(Source::Name),
        "metadata.namespace" if !spaceless => return Ok(Source::Namespace),
        _ => {}
    }
    let path = |path: &str| path.trim_start_matches('.').split('.').map(str::to_owned).collect();
    if def.custom {
        let found = def.selectable_fields.iter().find(|(field, _)| field == label);
        if let Some((_, json_path)) = found {
            return Ok(Source::Path(path(json_path), String::new()));
        }
    } else {
        let known = kinds::selectable_fields(&def.group, &def.plural);
        if let Some((_, json_path, absent)) = known.iter().find(|(field, ..)| *field == label) {
            return Ok(Source::Path(path(json_path), (*absent).to_owned()));
        }
    }
    Err(ApiError::bad_request(unknown_field(row, label)))
}

/// Upstream's texts differ by what the kind registered for its selectors.
fn unknown_field(row: &Row, label: &str) -> String {
    let def = &row.def;
    let known = kinds::selectable_fields(&def.group, &def.plural);
    match (known.is_empty(), def.plural.as_str()) {
        (true, _) if !def.custom => {
            format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
        (_, "resourceslices") => {
            format!("field label not supported for {}/{}, Kind={}: {label}", def.group, def.version, def.kind)
        }
        (_, "jobs") => format!("field label {label:?} not supported for Job"),
        _ => format!("field label not supported: {label}"),
    }
}

fn fields_match(row: &Row, entry: &Entry, fields: &FieldSelector, sources: &[Source]) -> bool {
    // Parsed only when a term looks inside the object.
    let mut parsed: Option<Value> = None;
    fields.terms.iter().zip(sources).all(|(term, source)| {
        let value = match source {
            Source::Name => Cow::Borrowed(entry.name()),
            Source::Namespace => Cow::Borrowed(namespace(row, entry)),
            Source::Path(path, absent) => {
                let object = parsed.get_or_insert_with(|| row.load(entry).unwrap_or_default());
                row.hooks.field(object, &term.field).unwrap_or_else(|| lookup(object, path, absent))
            }
        };
        (value == term.value.as_str()) == term.equal
    })
}

/// The namespace in a key.
fn namespace<'a>(row: &Row, entry: &'a Entry) -> &'a str {
    if !row.def.namespaced() {
        return "";
    }
    entry.key().rsplit('/').nth(1).unwrap_or_default()
}

fn lookup<'a>(object: &'a Value, path: &[String], absent: &str) -> Cow<'a, str> {
    let found = path.iter().try_fold(object, |at, step| at.get(step));
    match found {
        None | Some(Value::Null) => Cow::Owned(absent.to_owned()),
        Some(Value::String(text)) if text.is_empty() => Cow::Owned(absent.to_owned()),
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(other) => Cow::Owned(other.to_string()),
    }
}
