//! Resources that pods have been granted: what a pod was admitted with, until a resize is granted.
//!
//! A changed spec is a wish. It becomes the allocation when the node has room for it; until then
//! the pod runs with what it has and carries `PodResizePending`. Between the grant and the moment
//! the runtime has carried it out it carries `PodResizeInProgress`.
//!
//! Nothing is kept on disk: after a restart the status that the API holds tells what was granted.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodCondition, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::pod::PodExt;
use crate::ports::EventKind;
use crate::types::{PodRef, PodUid};

/// What a pod was granted.
#[derive(Debug, Clone, Default, PartialEq)]
struct Grant {
    pod: Option<ResourceRequirements>,
    containers: BTreeMap<String, ResourceRequirements>,
}

#[derive(Debug, Default)]
struct Entry {
    grant: Grant,
    pending: Option<PodCondition>,
    in_progress: Option<PodCondition>,
}

/// Something to tell about a resize: weight, reason, message.
pub type Notice = (EventKind, &'static str, String);

/// The grants of all pods.
#[derive(Debug, Default)]
pub struct Allocations {
    entries: Mutex<HashMap<PodUid, Entry>>,
}

/// Containers whose resources may change: main and init containers.
fn resizable(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec().containers.iter().chain(pod.init_containers())
}

impl Grant {
    fn of_spec(pod: &Pod) -> Self {
        let containers =
            resizable(pod).map(|c| (c.name.clone(), c.resources.clone().unwrap_or_default())).collect();
        Self { pod: pod.spec().resources.clone(), containers }
    }

    /// The grant that the API's status tells of; the spec's where it tells nothing.
    fn of_status(pod: &Pod) -> Self {
        let mut grant = Self::of_spec(pod);
        let Some(status) = &pod.status else { return grant };
        let told = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        for told in told.filter(|s| s.container_id.is_some()) {
            let (Some(own), Some(in_force)) = (grant.containers.get_mut(&told.name), &told.resources) else {
                continue;
            };
            own.requests.clone_from(&told.allocated_resources);
            own.limits.clone_from(&in_force.limits);
        }
        grant
    }

    /// The pod with the granted resources; the same one when the spec asks for nothing else.
    fn apply(&self, pod: &PodRef) -> PodRef {
        if same(self, &Self::of_spec(pod)) {
            return pod.clone();
        }
        let mut granted = Pod::clone(pod);
        if let Some(spec) = granted.spec.as_mut() {
            spec.resources.clone_from(&self.pod);
            let all = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
            for container in all {
                if let Some(resources) = self.containers.get(&container.name) {
                    container.resources = Some(resources.clone());
                }
            }
        }
        Arc::new(granted)
    }
}

/// Whether two grants mean the same amounts, however they are written.
fn same(a: &Grant, b: &Grant) -> bool {
    let amounts = |r: Option<&ResourceRequirements>| -> Vec<(String, String, Option<copepod_api::Quantity>)> {
        let Some(r) = r else { return Vec::new() };
        let of = |kind: &str, map: &Option<BTreeMap<String, _>>| {
            let kind = kind.to_owned();
            map.iter()
                .flatten()
                .map(|(name, q): (&String, &k8s_openapi::apimachinery::pkg::api::resource::Quantity)| {
                    (kind.clone(), name.clone(), q.0.parse().ok())
                })
                .collect::<Vec<_>>()
        };
        [of("limits", &r.limits), of("requests", &r.requests)].concat()
    };
    let names = |g: &Grant| g.containers.keys().cloned().collect::<Vec<_>>();
    amounts(a.pod.as_ref()) == amounts(b.pod.as_ref())
        && names(a) == names(b)
        && a.containers.iter().all(|(name, r)| amounts(Some(r)) == amounts(b.containers.get(name)))
}

fn condition(
    kind: &str,
    old: Option<&PodCondition>,
    (reason, message): (&str, &str),
    generation: Option<i64>,
    now: Timestamp,
) -> PodCondition {
    let text = |t: &str| Some(t.to_owned()).filter(|t| !t.is_empty());
    let unchanged = old.filter(|c| c.reason == text(reason));
    PodCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: text(reason),
        message: text(message),
        observed_generation: generation,
        last_probe_time: old.and_then(|c| c.last_probe_time.clone()).or(Some(Time(now))),
        last_transition_time: unchanged.and_then(|c| c.last_transition_time.clone()).or(Some(Time(now))),
    }
}

/// `Pod resize <what>: {…}`, the message of resize events.
fn summary(what: &str, pod: &Pod, generation: Option<i64>, error: &str) -> String {
    let list = |containers: &[Container]| -> Vec<Value> {
        let one =
            |c: &Container| json!({"name": c.name, "resources": c.resources.clone().unwrap_or_default()});
        containers.iter().map(one).collect()
    };
    // The order of members is upstream's.
    let mut members = Vec::new();
    if !pod.init_containers().is_empty() {
        members.push(format!("\"initContainers\":{}", json!(list(pod.init_containers()))));
    }
    members.push(format!("\"containers\":{}", json!(list(&pod.spec().containers))));
    members.push(format!("\"generation\":{}", generation.unwrap_or(0)));
    if !error.is_empty() {
        members.push(format!("\"error\":{}", json!(error)));
    }
    format!("Pod resize {what}: {{{}}}", members.join(","))
}

impl Allocations {
    /// The pod as it was granted; as it is when nothing was granted yet.
    #[must_use]
    pub fn granted(&self, pod: &PodRef) -> PodRef {
        self.entries.lock().get(pod.uid()).map_or_else(|| pod.clone(), |e| e.grant.apply(pod))
    }

    /// Grants what the pod wishes if `refuse` has nothing against it; with what has to be told.
    /// `refuse` is only asked about changes, and may ask what others were granted.
    pub fn decide(
        &self,
        pod: &PodRef,
        now: Timestamp,
        refuse: impl FnOnce(&Pod) -> Option<(&'static str, String)>,
    ) -> (PodRef, Vec<Notice>) {
        let wish = Grant::of_spec(pod);
        if self.has(pod, &wish) {
            return (pod.clone(), Vec::new());
        }
        // Asked without the lock; nobody else decides about this pod meanwhile.
        let refusal = refuse(pod);
        let generation = pod.metadata.generation;
        let mut entries = self.entries.lock();
        let entry = entries.entry(pod.uid().to_owned()).or_default();
        if let Some((reason, why)) = refusal {
            let old = entry.pending.take();
            let new = condition("PodResizePending", old.as_ref(), ("Deferred", &why), generation, now);
            let news = old.is_none_or(|old| {
                (&old.reason, old.observed_generation) != (&new.reason, new.observed_generation)
            });
            entry.pending = Some(new);
            let text = || summary(reason, pod, generation, &why);
            let notices = news.then(|| (EventKind::Warning, "ResizeDeferred", text()));
            return (entry.grant.apply(pod), notices.into_iter().collect());
        }
        entry.grant = wish;
        entry.pending = None;
        entry.in_progress = Some(condition("PodResizeInProgress", None, ("", ""), generation, now));
        (pod.clone(), vec![(EventKind::Normal, "ResizeStarted", summary("started", pod, generation, ""))])
    }

    /// Whether the pod has what it wishes; a pod seen for the first time has what its status tells.
    fn has(&self, pod: &PodRef, wish: &Grant) -> bool {
        let mut entries = self.entries.lock();
        let entry = entries.entry(pod.uid().to_owned()).or_insert_with(|| Entry {
            grant: Grant::of_status(pod),
            pending: told(pod, "PodResizePending"),
            in_progress: told(pod, "PodResizeInProgress"),
        });
        let has = same(&entry.grant, wish);
        if has {
            entry.pending = None;
        }
        has
    }

    /// Notes whether the runtime still has to carry out the grant; tells when it has.
    pub fn carry_out(&self, pod: &Pod, under_way: bool, now: Timestamp) -> Option<Notice> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(pod.uid())?;
        if under_way {
            let begin = || condition("PodResizeInProgress", None, ("", ""), pod.metadata.generation, now);
            entry.in_progress.get_or_insert_with(begin);
            return None;
        }
        let done = entry.in_progress.take()?;
        Some((EventKind::Normal, "ResizeCompleted", summary("completed", pod, done.observed_generation, "")))
    }

    /// Notes why carrying out the grant failed; tells it when it is news.
    pub fn fail(&self, pod: &Pod, why: &str, now: Timestamp) -> Option<Notice> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(pod.uid())?;
        let old = entry.in_progress.take();
        let generation = old.as_ref().and_then(|c| c.observed_generation).or(pod.metadata.generation);
        let new = condition("PodResizeInProgress", old.as_ref(), ("Error", why), generation, now);
        let news =
            old.is_none_or(|old| (old.reason, old.message) != (new.reason.clone(), new.message.clone()));
        entry.in_progress = Some(new);
        news.then(|| (EventKind::Warning, "ResizeError", summary("error", pod, generation, why)))
    }

    /// The pod's resize conditions.
    #[must_use]
    pub fn conditions(&self, uid: &str) -> Vec<PodCondition> {
        let entries = self.entries.lock();
        entries.get(uid).into_iter().flat_map(|e| e.pending.iter().chain(&e.in_progress).cloned()).collect()
    }

    /// Pods whose resize waits for room.
    #[must_use]
    pub fn waiting(&self) -> Vec<PodUid> {
        self.entries.lock().iter().filter(|(_, e)| e.pending.is_some()).map(|(uid, _)| uid.clone()).collect()
    }

    /// Forgets a pod that stopped.
    pub fn forget(&self, uid: &str) {
        self.entries.lock().remove(uid);
    }
}

fn told(pod: &Pod, kind: &str) -> Option<PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|c| c.type_ == kind).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(cpu: &str, generation: i64) -> PodRef {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": "p", "uid": "u", "generation": generation},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
            }))
            .unwrap(),
        )
    }

    fn cpu(pod: &Pod) -> String {
        let requests = pod.spec().containers[0].resources.as_ref().unwrap().requests.clone().unwrap();
        requests["cpu"].0.clone()
    }

    fn kinds(all: &Allocations) -> Vec<(String, Option<String>)> {
        all.conditions("u").into_iter().map(|c| (c.type_, c.reason)).collect()
    }

    #[test]
    fn a_wish_waits_for_room_and_is_then_carried_out() {
        let all = Allocations::default();
        let now = Timestamp::UNIX_EPOCH;
        let no = |why: &'static str| move |_: &Pod| (!why.is_empty()).then(|| ("OutOfcpu", why.to_owned()));
        let (first, notices) = all.decide(&pod("1", 1), now, no("never asked at the first sight"));
        assert_eq!((cpu(&first), notices.len()), ("1".to_owned(), 0));
        let (kept, notices) = all.decide(&pod("2", 2), now, no("no room"));
        assert_eq!(cpu(&kept), "1");
        assert_eq!(notices[0].1, "ResizeDeferred");
        assert!(
            notices[0].2.starts_with("Pod resize OutOfcpu: {\"containers\":[{\"name\":\"c\""),
            "{}",
            notices[0].2
        );
        assert!(notices[0].2.ends_with("\"generation\":2,\"error\":\"no room\"}"), "{}", notices[0].2);
        assert_eq!(kinds(&all), [("PodResizePending".to_owned(), Some("Deferred".to_owned()))]);
        assert_eq!(all.decide(&pod("2", 2), now, no("no room")).1.len(), 0, "told once");
        assert_eq!(all.waiting(), ["u"]);
        let asks = |p: &Pod| {
            assert_eq!(
                cpu(&all.granted(&Arc::new(p.clone()))),
                "1",
                "what was granted may be asked meanwhile"
            );
            None
        };
        let (granted, notices) = all.decide(&pod("2", 2), now, asks);
        assert_eq!((cpu(&granted).as_str(), notices[0].1), ("2", "ResizeStarted"));
        assert_eq!(kinds(&all), [("PodResizeInProgress".to_owned(), None)]);
        assert!(all.carry_out(&granted, true, now).is_none());
        assert_eq!(all.fail(&granted, "busy", now).unwrap().1, "ResizeError");
        assert!(all.fail(&granted, "busy", now).is_none());
        assert_eq!(all.carry_out(&granted, false, now).unwrap().1, "ResizeCompleted");
        assert!(kinds(&all).is_empty() && all.waiting().is_empty());
    }

    #[test]
    fn another_spelling_is_no_wish_and_a_new_process_asks_the_status() {
        let all = Allocations::default();
        let now = Timestamp::UNIX_EPOCH;
        all.decide(&pod("1", 1), now, |_| None);
        let (same, notices) = all.decide(&pod("1000m", 1), now, |_| None);
        assert_eq!((cpu(&same).as_str(), notices.len()), ("1000m", 0));
        let mut later = Pod::clone(&pod("3", 4));
        later.status = serde_json::from_value(json!({"containerStatuses": [{
            "name": "c", "containerID": "containerd://x", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}]}))
        .unwrap();
        let fresh = Allocations::default();
        let (kept, _) = fresh.decide(&Arc::new(later), now, |_| Some(("OutOfcpu", "no room".to_owned())));
        assert_eq!(cpu(&kept), "1");
    }
}
