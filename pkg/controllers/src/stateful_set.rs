//! StatefulSets: pods with names, an order, and storage of their own.

mod claims;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use copepod_client::resources::{PODS, STATEFUL_SETS};
use copepod_client::{ClientError, EventKind, ObjectKey, Outcome, Patch, WorkQueue};
use copepod_sys::clock;
use serde_json::{Value, json};

use crate::context::{Context, SyncResult, enqueue, enqueue_owner};
use crate::history::{self, HASH, History, Owner};
use crate::ownership::{Claimant, controller_reference, plan_claim};
use crate::status::plan_status;
use crate::step::{Step, event, execute, execute_all};
use crate::template::pod_from;
use crate::views::{HasMeta, Pod, StatefulSet};
use plan::{Action, State, plan, plan_new_status};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.stateful_sets, &queue);
    enqueue_owner(&context.caches.pods, &queue, &STATEFUL_SETS);
    let (owner, orphans) = (context.clone(), queue.clone());
    context.caches.pods.on_change(move |key, delta| {
        if delta.object().meta().controller().is_none() {
            let sets = owner.caches.stateful_sets.list_namespace(&key.namespace);
            let matching =
                sets.iter().filter(|s| s.spec.selector.compiled.matches(&delta.object().metadata.labels));
            matching.for_each(|set| orphans.add(set.metadata.key()));
        }
    });
    context.work(&queue, 2, sync);
}

/// The ordinal in a pod's name, if it is one of the set's names.
fn ordinal(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let canonical = digits == "0" || !digits.starts_with('0');
    let number = digits.bytes().all(|b| b.is_ascii_digit()) && canonical;
    if number { digits.parse().ok() } else { None }
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    let Some(set) = context.caches.stateful_sets.get_key(&key) else { return Ok(Outcome::Done) };
    if set.metadata.deleting() || set.spec.selector.compiled.is_empty() {
        return Ok(Outcome::Done);
    }
    let template = set.spec.template.value();
    let owner = Owner {
        resource: &STATEFUL_SETS,
        meta: &set.metadata,
        selector: &set.spec.selector,
        limit: set.spec.revision_history_limit.unwrap_or(10),
        collisions: set.status.collision_count,
    };
    let history = history::ensure(&context, owner, &template).await?;
    let mut failure = None;
    // An action may make room for the next one; a set is never larger than its pods.
    for _ in 0..set.spec.replicas.unwrap_or(1).clamp(1, 64) + 1 {
        let state = gather(&context, &set, &history).await?;
        execute_all(&context, plan_owners(&context, &state)).await?;
        let actions = plan(&state, clock::now());
        if actions.is_empty() {
            break;
        }
        if let Err(error) = carry_out(&context, &state, &history, actions).await {
            failure = Some(error);
            break;
        }
        if !state.parallel() {
            break;
        }
    }
    let state = gather(&context, &set, &history).await?;
    let now = clock::now();
    let status = plan_new_status(&state, now);
    let mut steps: Vec<_> =
        plan_status(&STATEFUL_SETS, &set.metadata, &set.status, &status).into_iter().collect();
    let live: Vec<_> = state.pods.values().map(|p| p.metadata.label(HASH)).collect();
    let mut used: Vec<_> = history
        .all
        .iter()
        .filter(|r| live.contains(&&*r.metadata.name))
        .map(|r| history::hash_of(r))
        .collect();
    let current = history.all.iter().find(|r| r.metadata.name == status.current_revision);
    used.extend(current.map(|r| history::hash_of(r)));
    steps.extend(history::plan_clean_up(owner, &history, &used));
    execute_all(&context, steps).await?;
    match failure {
        Some(error) => Err(error),
        None if status.ready_replicas != status.available_replicas => {
            Ok(Outcome::After(std::time::Duration::from_secs(1)))
        }
        None => Ok(Outcome::Done),
    }
}

async fn gather(context: &Context, set: &Arc<StatefulSet>, history: &History) -> Result<State, ClientError> {
    let name = &set.metadata.name;
    let claimant =
        Claimant { resource: &STATEFUL_SETS, meta: &set.metadata, selector: &set.spec.selector.compiled };
    let mut candidates = context.caches.pods.list_namespace(&set.metadata.namespace);
    candidates.retain(|p| ordinal(name, &p.metadata.name).is_some());
    let claimed = plan_claim(claimant, &PODS, candidates);
    execute_all(context, claimed.steps).await?;
    let pods: BTreeMap<i64, Arc<Pod>> =
        claimed.owned.into_iter().filter_map(|p| Some((ordinal(name, &p.metadata.name)?, p))).collect();
    let update = history.current.metadata.name.clone();
    let known = |name: &String| history.all.iter().any(|r| r.metadata.name == *name);
    let current = Some(set.status.current_revision.clone()).filter(known).unwrap_or_else(|| update.clone());
    let mut state =
        State { set: Arc::clone(set), pods, stale: BTreeSet::new(), bare: BTreeSet::new(), current, update };
    let namespace = &set.metadata.namespace;
    for ordinal in state.ordinals() {
        let pod = format!("{name}-{ordinal}");
        let claims = claims::claims(set, ordinal);
        let found: Vec<_> =
            claims.iter().map(|(_, claim, _)| context.caches.claims.get(namespace, claim)).collect();
        if found.iter().any(Option::is_none) {
            state.bare.insert(ordinal);
        }
        if found.iter().flatten().any(|claim| claims::stale(set, claim, &pod)) {
            state.stale.insert(ordinal);
        }
    }
    Ok(state)
}

/// Gives the claims of all pods the owners they should have.
fn plan_owners(context: &Context, state: &State) -> Vec<Step> {
    let set = &state.set;
    let owner = |(ordinal, pod): (&i64, &Arc<Pod>)| {
        let inside = state.ordinals().contains(ordinal);
        let names = claims::claims(set, *ordinal).into_iter().map(|(_, claim, _)| claim);
        let found = names.filter_map(|name| context.caches.claims.get(&set.metadata.namespace, &name));
        found.filter_map(|claim| claims::plan_owner(set, &pod.metadata, inside, &claim)).collect::<Vec<_>>()
    };
    state.pods.iter().flat_map(owner).collect()
}

async fn carry_out(
    context: &Context,
    state: &State,
    history: &History,
    actions: Vec<Action>,
) -> Result<(), ClientError> {
    let meta = &state.set.metadata;
    for action in actions {
        let (verb, name, steps) = match action {
            Action::Claims(ordinal) => {
                claims::make(context, state, ordinal).await?;
                continue;
            }
            Action::Create { ordinal, revision } => {
                let pod = build(state, history, ordinal, &revision);
                let claimed = claims::make(context, state, ordinal).await;
                let name = format!("{}-{ordinal}", meta.name);
                if let Err(error) = claimed {
                    tell(context, state, "Create", &name, Some(&error));
                    return Err(error);
                }
                (
                    "Create",
                    name,
                    vec![Step::Create { resource: PODS, namespace: meta.namespace.clone(), body: pod }],
                )
            }
            Action::Delete(pod) => {
                ("Delete", pod.metadata.name.clone(), vec![Step::delete(&PODS, &pod.metadata)])
            }
            Action::Label(pod, ordinal) => {
                let labels = json!({POD_NAME: pod.metadata.name, POD_INDEX: ordinal.to_string()});
                let step = Step::Patch {
                    resource: PODS,
                    key: pod.metadata.key(),
                    subresource: "",
                    patch: Patch::Strategic(json!({"metadata": {"labels": labels}})),
                };
                execute_all(context, vec![step]).await?;
                continue;
            }
        };
        match execute(context, steps).await.pop().unwrap_or(Ok(Value::Null)) {
            Ok(_) => tell(context, state, verb, &name, None),
            Err(error) if error.namespace_terminating() => return Ok(()),
            Err(error) => {
                tell(context, state, verb, &name, Some(&error));
                return Err(error);
            }
        }
    }
    Ok(())
}

fn tell(context: &Context, state: &State, verb: &str, pod: &str, error: Option<&ClientError>) {
    let meta = &state.set.metadata;
    let head = format!("{verb} Pod {pod} in StatefulSet {}", meta.name);
    let (kind, reason, text) = match error {
        None => (EventKind::Normal, format!("Successful{verb}"), format!("{head} successful")),
        Some(error) => (EventKind::Warning, format!("Failed{verb}"), format!("{head} failed error: {error}")),
    };
    event(context, (&STATEFUL_SETS, meta), kind, &reason, text);
}

/// A pod with its name, its labels and its own claims.
fn build(state: &State, history: &History, ordinal: i64, revision: &str) -> Value {
    let meta = &state.set.metadata;
    let remembered = history.all.iter().find(|r| r.metadata.name == revision);
    let mut template = match remembered {
        Some(old) if revision != state.update => {
            old.data.value().pointer("/spec/template").cloned().unwrap_or_default()
        }
        _ => state.set.spec.template.value(),
    };
    if let Some(template) = template.as_object_mut() {
        template.remove("$patch");
    }
    let mut pod =
        pod_from(&template, &meta.namespace, &meta.name, &controller_reference(&STATEFUL_SETS, meta));
    let name = format!("{}-{ordinal}", meta.name);
    let metadata = copepod_api::meta::metadata_mut(&mut pod);
    metadata.remove("generateName");
    metadata.insert("name".to_owned(), json!(name));
    let labels = copepod_api::meta::child_mut(metadata, "labels");
    labels.insert(POD_NAME.to_owned(), json!(name));
    labels.insert(POD_INDEX.to_owned(), json!(ordinal.to_string()));
    labels.insert(HASH.to_owned(), json!(revision));
    let claims = claims::claims(&state.set, ordinal);
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("hostname".to_owned(), json!(name));
        spec.insert("subdomain".to_owned(), json!(state.set.spec.service_name));
        let mut volumes = spec.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
        volumes.retain(|v| !claims.iter().any(|(volume, ..)| v["name"] == json!(volume)));
        volumes.extend(claims.iter().map(
            |(volume, claim, _)| json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}),
        ));
        if !volumes.is_empty() {
            spec.insert("volumes".to_owned(), Value::Array(volumes));
        }
    }
    pod
}
