//! Pods that wait behind scheduling gates may narrow where they run.

use serde_json::Value;

use super::validate::restore;
use crate::kinds::at::{At, same};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Checks changes of node selector and node affinity, and puts the old ones into `munged`.
pub(crate) fn changes(spec: &At<'_>, was: &At<'_>, munged: &mut Value) {
    let (now, before) = (spec.get("nodeSelector"), was.get("nodeSelector"));
    if !same(now.value(), before.value()) {
        let lost = before.entries().any(|(key, value)| now.key(key).value() != value.value());
        if lost {
            now.invalid("only additions to spec.nodeSelector are allowed (no mutations or deletions)");
        }
        restore(munged, "nodeSelector", before.value().cloned());
    }
    let (now, before) = (spec.at("affinity.nodeAffinity"), was.at("affinity.nodeAffinity"));
    if !same(now.value(), before.value()) {
        affinity(&now.get(REQUIRED), &before.get(REQUIRED));
        restore_affinity(munged, was, before.value().cloned());
    }
}

fn restore_affinity(munged: &mut Value, was: &At<'_>, old: Option<Value>) {
    let mut affinity = munged.get("affinity").cloned().unwrap_or_else(|| serde_json::json!({}));
    restore(&mut affinity, "nodeAffinity", old);
    let empty = affinity.as_object().is_none_or(serde_json::Map::is_empty);
    let value = if empty && !was.get("affinity").present() { None } else { Some(affinity) };
    restore(munged, "affinity", value);
}

/// Required terms may gain requirements, and change in nothing else.
fn affinity(now: &At<'_>, before: &At<'_>) {
    if !before.present() {
        return;
    }
    let (terms, old_terms) = (now.get("nodeSelectorTerms"), before.get("nodeSelectorTerms"));
    if !old_terms.is_empty() && terms.array().len() != old_terms.array().len() {
        return terms.invalid("no additions/deletions to non-empty NodeSelectorTerms list are allowed");
    }
    for (term, old) in terms.items().zip(old_terms.items()) {
        let kept = ["matchExpressions", "matchFields"].iter().all(|field| {
            let (list, was) = (term.get(field), old.get(field));
            list.array().get(..was.array().len()) == Some(was.array())
        });
        if !kept {
            term.invalid("only additions are allowed (no mutations or deletions)");
        }
    }
}
