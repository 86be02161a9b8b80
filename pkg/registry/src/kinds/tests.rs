//! Every kind against upstream's recorded answers.
//!
//! `testdata/registry/kinds/*.json` holds objects and what upstream's API server v1.37.2 (its admission plugins off)
//! made of them: the stored object, or the causes of its refusal. No Go is needed to compare.

use std::path::PathBuf;

use copepod_api::FieldErrors;
use serde_json::{Value, json};

use super::*;
use crate::hooks::HookContext;

#[test]
fn defaulting_is_idempotent() {
    let hooks = hooks_for("apps", "deployments");
    let mut once = json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [
        {"name": "a", "image": "b", "ports": [{"containerPort": 1}]}]}}}});
    hooks.default(&mut once);
    let mut twice = once.clone();
    hooks.default(&mut twice);
    assert_eq!(once, twice);
    assert_eq!(once["spec"]["template"]["spec"]["containers"][0]["ports"][0]["protocol"], "TCP");
}

#[test]
fn unknown_kinds_are_plain() {
    assert!(hooks_for("example.com", "things").validate_name("x.y").is_empty());
}

/// Fields of the store's, or that change from run to run.
const NOT_OURS: &[&str] =
    &["creationTimestamp", "uid", "resourceVersion", "managedFields", "namespace", "generation"];
const TIMES: &[&str] = &["lastPhaseTransitionTime", "timeAdded", "lastTransitionTime", "lastUpdateTime"];

/// Structs that Go writes even when empty.
const HOLLOW: &[&str] = &[
    "daemonEndpoints",
    "devices",
    "kubeletEndpoint",
    "loadBalancer",
    "metadata",
    "nodeInfo",
    "resources",
    "source",
    "spec",
    "status",
    "strategy",
];

/// The object without what is not ours, and without zeros and empty structs that Go writes and readers ignore.
fn comparable(value: &Value, field: &str) -> Value {
    match value {
        Value::Object(map) => {
            let mut kept = serde_json::Map::new();
            for (key, value) in map {
                let store = field == "metadata" && NOT_OURS.contains(&key.as_str());
                let unset = value.is_null() || value.as_str() == Some("") || value.as_i64() == Some(0);
                let value = comparable(value, key);
                let empty = value.as_object().is_some_and(serde_json::Map::is_empty);
                let hollow = empty && HOLLOW.contains(&key.as_str());
                if !store && !unset && !hollow && !TIMES.contains(&key.as_str()) {
                    kept.insert(key.clone(), value);
                }
            }
            kept.into()
        }
        Value::Array(list) => list.iter().map(|item| comparable(item, "")).collect(),
        other => other.clone(),
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// What the store and its allocators have set before a kind's turn.
fn allocated(case: &Value, object: &mut Value) {
    let selector = "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid";
    let uid = Some(text(&case["answer"], selector)).filter(|u| !u.is_empty()).unwrap_or("u-1").to_owned();
    object["metadata"]["uid"] = uid.into();
    if text(case, "/resource") == "services" && text(object, "/spec/type") != "ExternalName" {
        let answer = &case["answer"]["spec"];
        for (field, value) in [("ipFamilies", json!(["IPv4"])), ("ipFamilyPolicy", json!("SingleStack"))] {
            object["spec"][field] = answer.get(field).cloned().unwrap_or(value);
        }
    }
}

fn causes(errors: &FieldErrors) -> Vec<String> {
    let mut texts: Vec<String> = errors.iter().map(|e| format!("{} | {}", e.field, e.body())).collect();
    texts.sort();
    texts.dedup();
    texts
}

fn upstream_causes(answer: &Value) -> Vec<String> {
    let list = answer.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
    // Metadata beside the name is the store's to check.
    let ours = list.iter().filter(|c| !text(c, "/field").starts_with("metadata.finalizers"));
    let mut texts: Vec<String> =
        ours.map(|c| format!("{} | {}", text(c, "/field"), text(c, "/message"))).collect();
    texts.sort();
    texts.dedup();
    texts
}

/// The warnings of a new object; those of whole APIs are the server's.
fn warnings(case: &Value, object: &Value) -> (Vec<String>, Vec<String>) {
    let hooks = hooks_for(text(case, "/group"), text(case, "/resource"));
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let cx = HookContext { user: anyone(), subresource: None, now };
    let theirs = case.get("warnings").and_then(Value::as_array).cloned().unwrap_or_default();
    let theirs = theirs.iter().filter_map(Value::as_str).filter(|w| !w.starts_with("v1 Endpoints is"));
    (hooks.warnings(&cx, object, None), theirs.map(str::to_owned).collect())
}

/// Runs a case through the hooks as the store does: the object, and what is wrong with it.
fn run(case: &Value) -> (Value, FieldErrors) {
    let hooks = hooks_for(text(case, "/group"), text(case, "/resource"));
    let subresource = match (case.get("status"), case.get("subresource").and_then(Value::as_str)) {
        (Some(_), _) => Some("status"),
        (None, named) => named,
    };
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let cx = HookContext { user: anyone(), subresource, now };
    let Some(mut new) = case.get("sent").cloned() else {
        let mut new = case["object"].clone();
        if let Some(namespace) = case.get("namespace") {
            new["metadata"]["namespace"] = namespace.clone();
        }
        hooks.default(&mut new);
        new["metadata"]["uid"] = Value::Null;
        allocated(case, &mut new);
        hooks.prepare_create(&cx, &mut new);
        if text(case, "/resource") == "certificatesigningrequests" {
            for field in ["username", "groups", "extra"] {
                new["spec"][field] = case["answer"]["spec"].get(field).cloned().unwrap_or_default();
            }
        }
        let mut errors: FieldErrors = hooks
            .validate_name(text(&new, "/metadata/name"))
            .into_iter()
            .map(|e| {
                copepod_api::FieldError::invalid(
                    &copepod_api::FieldPath::new("metadata.name"),
                    text(&new, "/metadata/name"),
                    e,
                )
            })
            .collect();
        errors.extend(hooks.validate_create(&cx, &new));
        return (new, errors);
    };
    let old = case["stored"].clone();
    hooks.default(&mut new);
    if subresource == Some("status") {
        let kept = new.get("status").cloned();
        let metadata = new["metadata"].clone();
        new = old.clone();
        new["metadata"] = metadata;
        new["status"] = kept.unwrap_or_else(|| json!({}));
        hooks.default(&mut new);
        hooks.prepare_status(&cx, &mut new, &old);
        let errors = hooks.validate_status(&cx, &new, &old);
        return (new, errors);
    }
    if hooks_keep_status(case) && subresource.is_none() {
        new["status"] = old.get("status").cloned().unwrap_or_else(|| json!({}));
    }
    hooks.prepare_update(&cx, &mut new, &old);
    let errors = hooks.validate_update(&cx, &new, &old);
    (new, errors)
}

fn hooks_keep_status(case: &Value) -> bool {
    case["stored"].get("status").is_some()
}

/// The text without what people read and nobody compares: a diff at the end, and a whole struct as Go prints it.
fn plain(causes: Vec<String>) -> Vec<String> {
    let cut = |text: String| {
        let line = text.split('\n').next().unwrap_or_default();
        let shown = line.split_once(" value: {").or_else(|| line.split_once(" value: [{"));
        match shown.and_then(|(before, rest)| Some((before, rest.rsplit_once(['}', ']'])?.1))) {
            Some((before, after)) => format!("{before} value: {{}}{after}"),
            None => line.to_owned(),
        }
    };
    causes.into_iter().map(cut).collect()
}

/// What one list has and the other lacks.
fn only(ours: &[String], theirs: &[String]) -> String {
    let only = |a: &[String], b: &[String], sign: &str| {
        a.iter().filter(|t| !b.contains(t)).map(|t| format!("\n    {sign} {t}")).collect::<String>()
    };
    only(ours, theirs, "ours  ") + &only(theirs, ours, "theirs")
}

fn difference(case: &Value) -> Option<String> {
    let (mut object, errors) = run(case);
    // What is stored is read with its defaults.
    hooks_for(text(case, "/group"), text(case, "/resource")).default(&mut object);
    let (ours, theirs) = (plain(causes(&errors)), plain(upstream_causes(&case["answer"])));
    if ours != theirs {
        return Some(only(&ours, &theirs));
    }
    let (ours, theirs) = warnings(case, &object);
    if errors.is_empty() && case.get("sent").is_none() && ours != theirs {
        return Some(only(&ours, &theirs));
    }
    if errors.is_empty() {
        let (ours, theirs) = (comparable(&object, ""), comparable(&case["answer"], ""));
        if ours != theirs {
            let lines: String =
                pod::diff(&theirs, &ours).lines().map(|line| format!("\n    {line}")).collect();
            return Some(lines).filter(|l| !l.is_empty()).map(|l| l + " (- theirs, + ours)");
        }
    }
    None
}

#[test]
fn objects_become_and_are_refused_as_upstreams() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/registry/kinds");
    let (mut all, mut wrong) = (0, Vec::new());
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "json")) {
        let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        for case in cases.iter().filter(|case| case.get("differs").is_none()) {
            all += 1;
            if let Some(difference) = difference(case) {
                wrong.push(format!("{}: {}{difference}", text(case, "/resource"), text(case, "/name")));
            }
        }
    }
    assert!(all > 100, "only {all} cases");
    assert!(wrong.is_empty(), "{} of {all} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}
