//! The normal form of answers, and the list of what it leaves out.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::Value;

/// A difference that is none.
#[derive(Debug, Clone, Copy)]
pub struct Allowed {
    /// What differs.
    pub what: &'static str,
    /// Why both are right.
    pub why: &'static str,
}

/// Everything that answers may differ in. The code below does what this list says.
pub const ALLOWED: &[Allowed] = &[
    Allowed { what: "UIDs", why: "random" },
    Allowed { what: "times", why: "the clock" },
    Allowed { what: "resource versions, continue tokens", why: "two stores, each with revisions of its own" },
    Allowed { what: "suffixes of generated names", why: "random" },
    Allowed { what: "allocated node ports and cluster IPs", why: "random" },
    Allowed { what: "tokens, keys and certificates that the server makes", why: "random, or signed" },
    Allowed { what: "descriptions of Table columns", why: "prose" },
    Allowed {
        what: "the order of several causes",
        why: "upstream's generated and written checks interleave",
    },
    Allowed { what: "the order of managedFields, ages in Tables", why: "both follow times of whole seconds" },
    Allowed { what: "the order of fields in JSON objects", why: "without meaning in JSON" },
    Allowed {
        what: "headers date, content-length, audit-id and those of flow control",
        why: "the clock, random",
    },
    Allowed { what: "the order of rules in reviews of rules", why: "upstream's is that of a map" },
    Allowed { what: "entity tags", why: "a hash over what is listed here; that there is one is compared" },
];

/// Headers that are not compared at all.
const SKIPPED: [&str; 6] = ["audit-id", "connection", "content-length", "date", "transfer-encoding", "vary"];

static UID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")
});
static IP: LazyLock<Regex> = LazyLock::new(|| pattern(r"(clusterIPs?:(?:\n +-)? )10\.[0-9.]+"));
/// An address of 10.96.0.0/12 that was allocated, not asked for.
static SERVICE_IP: LazyLock<Regex> = LazyLock::new(|| pattern(r"^10\.(9[6-9]|10[0-9]|11[01])\.[0-9.]+$"));
static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[0-9]+[smhdy]([0-9]+[smhd])?$"));
static JWT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"));
static REVISION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"((?:[rR]esource ?[vV]ersion|[cC]urrent|revision|in record)\\?"?[ :=(]+\\?"?)[0-9]+"#)
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

/// A header's value in normal form; `None` when it is not compared.
pub(crate) fn header(name: &str, value: &str) -> Option<String> {
    if SKIPPED.contains(&name) || name.starts_with("x-kubernetes-pf-") {
        return None;
    }
    Some(if name == "etag" { "<etag>".to_owned() } else { text(value) })
}

/// Puts several causes of a refusal in one order.
fn causes(status: &mut Value) {
    let Some(Value::Array(list)) = status.pointer_mut("/details/causes") else { return };
    if list.len() < 2 {
        return;
    }
    list.sort_by_key(ToString::to_string);
    let message = status.get("message").and_then(Value::as_str).unwrap_or_default();
    if let Some((head, _)) = message.split_once(": [") {
        status["message"] = format!("{head}: [<causes>]").into();
    }
}

static ACCESS: LazyLock<Regex> = LazyLock::new(|| pattern(r"kube-api-access-[a-z0-9]{5}"));
static FINGERPRINT: LazyLock<Regex> = LazyLock::new(|| pattern(r"X509SHA256=[0-9a-f]{64}"));

/// A text without times and UIDs.
pub(crate) fn text(text: &str) -> String {
    let text = UID.replace_all(text, "<uid>");
    let text = TIME.replace_all(&text, "<time>");
    let text = IP.replace_all(&text, "${1}<ip>");
    let text = JWT.replace_all(&text, "<token>");
    let text = ACCESS.replace_all(&text, "kube-api-access-<5>");
    let text = FINGERPRINT.replace_all(&text, "X509SHA256=<hash>");
    REVISION.replace_all(&text, "${1}<rv>").into_owned()
}

/// Brings a body to its normal form.
pub(crate) fn body(value: &mut Value) {
    generated_name(value);
    causes(value);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                field(key, value);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(body),
        Value::String(found) => *found = text(found),
        _ => {}
    }
}

fn field(key: &str, value: &mut Value) {
    let replaced = match (key, &*value) {
        ("uid", Value::String(uid)) if UID.is_match(uid) => Some("<uid>"),
        ("resourceVersion", Value::String(version)) if version.parse::<u64>().is_ok_and(|n| n > 0) => {
            Some("<rv>")
        }
        ("continue", Value::String(token)) if token.len() > 16 => Some("<continue>"),
        ("nodePort" | "healthCheckNodePort", Value::Number(port))
            if port.as_u64().is_some_and(|p| p >= 30000) =>
        {
            Some("<port>")
        }
        ("clusterIP", Value::String(ip)) if ip.starts_with("10.") => Some("<ip>"),
        ("token" | "jwks_uri" | "serverAddress", Value::String(_)) => Some("<made>"),
        ("storageVersionHash" | "serverRelativeURL", Value::String(hash)) if hash.contains("hash=") => {
            Some("<hash>")
        }
        _ => None,
    };
    if key == "keys" {
        signing_keys(value);
    }
    match (replaced, key, &mut *value) {
        (Some(text), ..) => *value = text.into(),
        (None, "clusterIPs", Value::Array(ips)) => {
            for ip in ips.iter_mut().filter(|ip| ip.as_str().is_some_and(|ip| ip.starts_with("10."))) {
                *ip = "<ip>".into();
            }
        }
        (None, "cells", Value::Array(cells)) => {
            for cell in cells {
                if cell.as_str().is_some_and(|text| AGE.is_match(text)) {
                    *cell = "<age>".into();
                } else if cell.as_str().is_some_and(|text| SERVICE_IP.is_match(text)) {
                    *cell = "<ip>".into();
                }
                body(cell);
            }
        }
        (None, "managedFields", Value::Array(entries)) => {
            entries.iter_mut().for_each(body);
            let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            let keys = ["operation", "manager", "subresource", "apiVersion"];
            entries.sort_by_key(|entry| keys.map(|key| text(entry, key)));
        }
        // Upstream lists rules in the order of a map.
        (None, "resourceRules" | "nonResourceRules", Value::Array(rules)) => {
            rules.iter_mut().for_each(body);
            rules.sort_by_key(ToString::to_string);
        }
        (None, "columnDefinitions", Value::Array(columns)) => {
            columns.iter_mut().filter_map(Value::as_object_mut).for_each(|column| {
                column.remove("description");
            });
        }
        (None, _, value) => body(value),
    }
}

/// The public halves of keys that each server's node made for itself.
fn signing_keys(keys: &mut Value) {
    for key in keys.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if key.contains_key("kty") {
            let made = ["kid", "n", "x", "y"];
            key.iter_mut()
                .filter(|(name, _)| made.contains(&name.as_str()))
                .for_each(|(_, v)| *v = "<made>".into());
        }
    }
}

/// `metadata.name` made from `metadata.generateName`.
fn generated_name(object: &mut Value) {
    let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let prefix = meta.get("generateName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = meta.get("name").and_then(Value::as_str).unwrap_or_default();
    if !prefix.is_empty() && name.strip_prefix(&prefix).is_some_and(|suffix| suffix.len() == 5) {
        meta.insert("name".to_owned(), format!("{prefix}<5>").into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn what_may_differ_goes() {
        let mut object = json!({
            "metadata": {"generateName": "a-", "name": "a-x7k2p", "uid": "0b7f2c6e-6e0a-4d5c-8a1e-0123456789ab",
                "resourceVersion": "17", "creationTimestamp": "2026-11-30T21:00:00Z"},
            "message": "pod 0b7f2c6e-6e0a-4d5c-8a1e-0123456789ab gone",
            "spec": {"clusterIPs": ["10.96.3.4", "None"], "clusterIP": "10.96.3.4"},
        });
        super::body(&mut object);
        assert_eq!(
            object,
            json!({
                "metadata": {"generateName": "a-", "name": "a-<5>", "uid": "<uid>", "resourceVersion": "<rv>",
                    "creationTimestamp": "<time>"},
                "message": "pod <uid> gone",
                "spec": {"clusterIPs": ["<ip>", "None"], "clusterIP": "<ip>"},
            })
        );
        assert_eq!(super::header("etag", "\"ABC\""), Some("<etag>".to_owned()));
        assert_eq!(super::header("audit-id", "x"), None);
    }

    #[test]
    fn ages_of_any_length_are_none() {
        let mut table =
            json!({"rows": [{"cells": ["3s", "2m10s", "334d", "3y12d", "10.0.0.1", "5", "ready"]}]});
        super::body(&mut table);
        let cells = &table["rows"][0]["cells"];
        assert_eq!(*cells, json!(["<age>", "<age>", "<age>", "<age>", "10.0.0.1", "5", "ready"]));
    }
}
