//! Where a pod may run: affinity and spreading.

use std::collections::HashSet;

use copepod_api::{FieldError, names};

use crate::kinds::at::At;
use crate::kinds::checks::{labels, topology};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// `affinity`.
pub(crate) fn affinity(at: &At<'_>) {
    let node = at.get("nodeAffinity");
    if node.get(REQUIRED).present() {
        topology::node_selector(&node.get(REQUIRED));
    }
    for term in node.get(PREFERRED).items() {
        weight(&term.get("weight"));
        topology::node_term(&term.get("preference"), false);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        at.get(kind).get(REQUIRED).items().for_each(|term| pod_term(&term));
        for term in at.get(kind).get(PREFERRED).items() {
            weight(&term.get("weight"));
            pod_term(&term.get("podAffinityTerm"));
        }
    }
}

fn weight(at: &At<'_>) {
    let weight = at.int().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        at.invalid_as(weight, "must be in the range 1-100");
    }
}

fn pod_term(at: &At<'_>) {
    labels::selector(&at.get("labelSelector"));
    labels::selector(&at.get("namespaceSelector"));
    for name in at.get("namespaces").strings() {
        names::dns1123_label(name).into_iter().for_each(|error| at.get("namespace").invalid_as(name, error));
    }
    label_keys(at);
    let key = at.get("topologyKey");
    if key.is_empty() {
        key.required("can not be empty");
    }
    labels::key(&key.holding(&key));
}

/// `matchLabelKeys` and `mismatchLabelKeys` beside a selector.
fn label_keys(at: &At<'_>) {
    let selector = at.get("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = at.get(field);
        if keys.is_empty() {
            continue;
        }
        if selector.present() {
            keys.items().for_each(|key| labels::key(&key));
        } else {
            keys.forbidden("must not be specified when labelSelector is not set");
        }
    }
    let keys = at.get("matchLabelKeys").strings();
    let mut seen: HashSet<&str> = selector.get("matchLabels").entries().map(|(key, _)| key).collect();
    for term in selector.get("matchExpressions").items() {
        let key = term.get("key").str();
        if let Some(i) = keys.iter().position(|k| *k == key)
            && seen.contains(key)
        {
            at.push(FieldError::invalid(
                &at.path().index(i),
                key,
                "exists in both matchLabelKeys and labelSelector",
            ));
        }
        seen.insert(key);
    }
    let mismatch = at.get("mismatchLabelKeys").strings();
    for key in at.get("matchLabelKeys").items().filter(|key| mismatch.contains(&key.str())) {
        key.invalid("exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// `topologySpreadConstraints`.
pub(crate) fn spread(list: &At<'_>) {
    let actions = &["DoNotSchedule", "ScheduleAnyway"];
    let all: Vec<At<'_>> = list.items().collect();
    let pair =
        |at: &At<'_>| (at.get("topologyKey").str().to_owned(), at.get("whenUnsatisfiable").str().to_owned());
    for (i, at) in all.iter().enumerate() {
        let skew = at.get("maxSkew");
        if skew.int().unwrap_or(0) <= 0 {
            skew.invalid_as(skew.int().unwrap_or(0), "must be greater than zero");
        }
        at.get("topologyKey").need_because("can not be empty");
        let action = at.get("whenUnsatisfiable");
        if !actions.contains(&action.str()) {
            action.not_supported(actions);
        }
        if all.iter().skip(i + 1).any(|other| pair(other) == pair(at)) {
            let (key, action) = pair(at);
            let path = at.path().child("{topologyKey, whenUnsatisfiable}");
            at.push(FieldError::duplicate(&path, format!("{{{key}, {action}}}")));
        }
        let domains = at.get("minDomains");
        if domains.present() {
            domains.positive();
            if action.str() != "DoNotSchedule" {
                domains.invalid(format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    action.str()
                ));
            }
        }
        at.get("nodeAffinityPolicy").one_of(&["Honor", "Ignore"]);
        at.get("nodeTaintsPolicy").one_of(&["Honor", "Ignore"]);
        label_keys(at);
        labels::selector(&at.get("labelSelector"));
    }
}
