//! Endpoints packed into slices of at most a hundred, with as few writes as possible. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use copepod_client::resources::ENDPOINT_SLICES;
use copepod_client::{Labels, Meta, OwnerReference};
use serde_json::{Map, Value, json};

use crate::step::Step;
use crate::template::generate_name;
use crate::views::{Endpoint, EndpointPort, EndpointSlice};

/// Label of a slice that names its Service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of a slice that names who keeps it.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// When what a slice shows happened.
pub(crate) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Endpoints in one slice.
const ROOM: usize = 100;

/// Address type and ports; endpoints that share them may share a slice.
pub(crate) type Group = (String, Vec<EndpointPort>);

/// What all slices of a Service have in common.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// Namespace.
    pub(crate) namespace: String,
    /// Base of generated names.
    pub(crate) base: String,
    /// Labels.
    pub(crate) labels: Labels,
    /// Annotations.
    pub(crate) annotations: Labels,
    /// Who owns the slices.
    pub(crate) owner: OwnerReference,
}

/// The steps that make `existing` show `desired`. An address type with no endpoints keeps one empty slice, so that
/// the Service can be seen to have none.
#[must_use]
pub(crate) fn plan_slices(
    pattern: &Pattern,
    existing: &[Arc<EndpointSlice>],
    desired: BTreeMap<Group, Vec<Endpoint>>,
    families: &[String],
) -> Vec<Step> {
    let mut desired = desired;
    desired.retain(|_, endpoints| !endpoints.is_empty());
    for family in families {
        if !desired.keys().any(|(kind, _)| kind == family) {
            desired.insert((family.clone(), Vec::new()), Vec::new());
        }
    }
    let mut steps = Vec::new();
    let mut kept: Vec<&str> = Vec::new();
    for (group, endpoints) in desired {
        let (kind, ports) = &group;
        let same = |slice: &&Arc<EndpointSlice>| {
            let mut theirs = slice.ports.clone();
            theirs.sort();
            slice.address_type == *kind && theirs == *ports && !slice.metadata.deleting()
        };
        let mine: Vec<_> = existing.iter().filter(same).collect();
        let contents = pack(&mine, endpoints);
        for (at, content) in contents.into_iter().enumerate() {
            match mine.get(at) {
                Some(_) if content.is_empty() && at > 0 => {}
                Some(slice) => {
                    kept.push(&slice.metadata.name);
                    steps.extend(update(pattern, slice, &content));
                }
                None => steps.push(create(pattern, &group, &content)),
            }
        }
    }
    let surplus =
        existing.iter().filter(|s| !kept.contains(&s.metadata.name.as_str()) && !s.metadata.deleting());
    steps.extend(surplus.map(|s| Step::delete(&ENDPOINT_SLICES, &s.metadata)));
    steps
}

/// What tells endpoints apart: the pod behind one, or its addresses.
fn identity(endpoint: &Endpoint) -> String {
    endpoint.target_ref.as_ref().map_or_else(|| endpoint.addresses.join(","), |t| t.uid.clone())
}

/// One content per existing slice, then those of new ones. Endpoints stay in the slice they are in; slices that change
/// anyway are filled first.
fn pack(slices: &[&Arc<EndpointSlice>], endpoints: Vec<Endpoint>) -> Vec<Vec<Endpoint>> {
    let mut waiting: BTreeMap<String, Endpoint> = endpoints.into_iter().map(|e| (identity(&e), e)).collect();
    let mut contents: Vec<Vec<Endpoint>> = slices
        .iter()
        .map(|slice| slice.endpoints.iter().filter_map(|old| waiting.remove(&identity(old))).collect())
        .collect();
    let mut order: Vec<usize> = (0..contents.len()).collect();
    order.sort_by_key(|at| slices.get(*at).zip(contents.get(*at)).is_some_and(|(s, c)| s.endpoints == *c));
    let mut rest = waiting.into_values();
    for at in order {
        let Some(content) = contents.get_mut(at) else { continue };
        let room = ROOM.saturating_sub(content.len());
        content.extend(rest.by_ref().take(room));
    }
    loop {
        let fresh: Vec<_> = rest.by_ref().take(ROOM).collect();
        if fresh.is_empty() {
            break;
        }
        contents.push(fresh);
    }
    if contents.is_empty() {
        contents.push(Vec::new());
    }
    contents
}

fn create(pattern: &Pattern, group: &Group, content: &[Endpoint]) -> Step {
    let body = json!({
        "apiVersion": ENDPOINT_SLICES.api_version(), "kind": ENDPOINT_SLICES.kind,
        "metadata": {
            "generateName": generate_name(&pattern.base), "namespace": pattern.namespace,
            "labels": pattern.labels, "annotations": pattern.annotations, "ownerReferences": [pattern.owner],
        },
        "addressType": group.0, "endpoints": content, "ports": group.1,
    });
    Step::Create { resource: ENDPOINT_SLICES, namespace: pattern.namespace.clone(), body }
}

fn update(pattern: &Pattern, slice: &EndpointSlice, content: &[Endpoint]) -> Option<Step> {
    let mut body = Map::new();
    let mut metadata = Map::new();
    let labels = label_changes(&slice.metadata, &pattern.labels);
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
    if slice.endpoints != content {
        body.insert("endpoints".to_owned(), json!(content));
    }
    if body.is_empty() && metadata.is_empty() {
        return None;
    }
    if !pattern.annotations.is_empty() {
        metadata.insert("annotations".to_owned(), json!(pattern.annotations));
    }
    body.insert("metadata".to_owned(), Value::Object(metadata));
    Some(Step::merge(&ENDPOINT_SLICES, &slice.metadata, Value::Object(body)))
}

fn label_changes(meta: &Meta, wanted: &Labels) -> Map<String, Value> {
    let set = wanted.iter().filter(|(key, value)| meta.labels.get(*key) != Some(value));
    let mut changes: Map<_, _> = set.map(|(key, value)| (key.clone(), json!(value))).collect();
    changes.extend(meta.labels.keys().filter(|k| !wanted.contains_key(*k)).map(|k| (k.clone(), Value::Null)));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(n: usize) -> Endpoint {
        Endpoint { addresses: vec![format!("10.0.{}.{}", n / 250, n % 250)], ..Endpoint::default() }
    }

    fn pattern() -> Pattern {
        Pattern {
            namespace: "ns".to_owned(),
            base: "web".to_owned(),
            labels: Labels::new(),
            annotations: Labels::new(),
            owner: OwnerReference::default(),
        }
    }

    fn slice(name: &str, endpoints: std::ops::Range<usize>) -> Arc<EndpointSlice> {
        Arc::new(EndpointSlice {
            metadata: Meta { name: name.to_owned(), ..Meta::default() },
            address_type: "IPv4".to_owned(),
            endpoints: endpoints.map(endpoint).collect(),
            ports: Vec::new(),
        })
    }

    fn plan(existing: &[Arc<EndpointSlice>], endpoints: impl Iterator<Item = usize>) -> Vec<Step> {
        let desired = BTreeMap::from([(("IPv4".to_owned(), Vec::new()), endpoints.map(endpoint).collect())]);
        plan_slices(&pattern(), existing, desired, &["IPv4".to_owned()])
    }

    #[test]
    fn slices_hold_a_hundred_and_an_empty_service_has_one() {
        let sizes = |steps: &[Step]| -> Vec<usize> {
            let size = |step: &Step| match step {
                Step::Create { body, .. } => body["endpoints"].as_array().map_or(0, Vec::len),
                _ => panic!("only creations"),
            };
            steps.iter().map(size).collect()
        };
        assert_eq!(sizes(&plan(&[], 0..250)), [100, 100, 50]);
        assert_eq!(sizes(&plan(&[], 0..0)), [0]);
        assert!(plan(&[slice("a", 0..0)], 0..0).is_empty(), "the empty slice stays");
    }

    #[test]
    fn one_change_writes_one_slice() {
        let existing = [slice("a", 0..100), slice("b", 100..150)];
        assert!(plan(&existing, 0..150).is_empty());
        let steps = plan(&existing, (0..150).filter(|n| *n != 7).chain([900]));
        assert_eq!(steps.len(), 1, "the newcomer takes the place that became free: {steps:?}");
        let steps = plan(&existing, 0..100);
        assert!(matches!(steps.as_slice(), [Step::Delete { key, .. }] if key.name == "b"), "{steps:?}");
        let steps = plan(&existing, 0..0);
        assert_eq!(steps.len(), 2, "one is emptied, one deleted");
    }
}
