//! Diffs what sources say. Pure: no clock but the one passed in.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::{Source, SourceUpdate};
use crate::pod::{CONFIG_SEEN, CONFIG_SOURCE, PodExt};
use crate::types::{PodRef, PodUid};

/// What changed for one pod.
#[derive(Debug, Clone, PartialEq)]
pub enum PodChange {
    /// New, or its spec, labels, annotations or deletion changed.
    Set(PodRef),
    /// Only its status differs from what was last seen: the status manager may have to reconcile.
    Reconcile(PodRef),
    /// No source names it any more.
    Remove(PodRef),
}

/// The pods of all sources.
#[derive(Debug, Default)]
pub struct Mux {
    pods: HashMap<(Source, PodUid), PodRef>,
    seen: BTreeSet<Source>,
}

impl Mux {
    /// Takes a source's full set and returns the differences, removals first (so that a
    /// successor with the same name starts after its predecessor is told to go).
    pub fn merge(&mut self, update: SourceUpdate, now: Timestamp) -> Vec<PodChange> {
        let source = update.source;
        self.seen.insert(source);
        let mut next: HashMap<PodUid, PodRef> = HashMap::new();
        for pod in update.pods {
            next.insert(pod.uid().to_owned(), pod);
        }
        let gone: Vec<_> =
            self.pods.keys().filter(|(s, uid)| *s == source && !next.contains_key(uid)).cloned().collect();
        let mut changes: Vec<_> =
            gone.iter().filter_map(|key| self.pods.remove(key)).map(PodChange::Remove).collect();
        let mut news: Vec<_> = next.into_iter().collect();
        news.sort_by(|a, b| {
            a.1.metadata.creation_timestamp.cmp(&b.1.metadata.creation_timestamp).then(a.0.cmp(&b.0))
        });
        for (uid, pod) in news {
            changes.extend(self.set(source, uid, &pod, now));
        }
        changes
    }

    fn set(&mut self, source: Source, uid: PodUid, pod: &PodRef, now: Timestamp) -> Option<PodChange> {
        let key = (source, uid);
        let previous = self.pods.get(&key);
        let seen =
            previous.and_then(|p| p.annotation(CONFIG_SEEN)).map_or_else(|| now.to_string(), str::to_owned);
        let pod = annotate(pod, source, seen);
        let change = match previous {
            None => Some(PodChange::Set(pod.clone())),
            Some(old) if differs(old, &pod) => Some(PodChange::Set(pod.clone())),
            Some(old) if old.status != pod.status => Some(PodChange::Reconcile(pod.clone())),
            Some(_) => None,
        };
        self.pods.insert(key, pod);
        change
    }

    /// Whether every source of `configured` has spoken.
    #[must_use]
    pub fn all_seen(&self, configured: &[Source]) -> bool {
        configured.iter().all(|s| self.seen.contains(s))
    }

    /// All pods of all sources.
    pub fn pods(&self) -> impl Iterator<Item = &PodRef> {
        self.pods.values()
    }
}

fn annotate(pod: &PodRef, source: Source, seen: String) -> PodRef {
    let mut pod = Pod::clone(pod);
    let annotations = pod.metadata.annotations.get_or_insert_with(Default::default);
    annotations.insert(CONFIG_SOURCE.to_owned(), source.as_str().to_owned());
    annotations.insert(CONFIG_SEEN.to_owned(), seen);
    Arc::new(pod)
}

/// Whether a worker has to look again: everything but status and bookkeeping counts.
fn differs(old: &Pod, new: &Pod) -> bool {
    let a = &old.metadata;
    let b = &new.metadata;
    old.spec != new.spec
        || a.labels != b.labels
        || a.annotations != b.annotations
        || a.deletion_timestamp != b.deletion_timestamp
        || a.deletion_grace_period_seconds != b.deletion_grace_period_seconds
        || a.generation != b.generation
        || a.finalizers != b.finalizers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, image: &str) -> PodRef {
        Arc::new(
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": uid, "namespace": "d", "uid": uid},
                "spec": {"containers": [{"name": "c", "image": image}]}
            }))
            .unwrap(),
        )
    }

    fn merge(mux: &mut Mux, source: Source, pods: Vec<PodRef>, second: i64) -> Vec<String> {
        mux.merge(SourceUpdate { source, pods }, Timestamp::from_second(second).unwrap())
            .into_iter()
            .map(|c| match c {
                PodChange::Set(p) => format!("set {}", p.uid()),
                PodChange::Reconcile(p) => format!("reconcile {}", p.uid()),
                PodChange::Remove(p) => format!("remove {}", p.uid()),
            })
            .collect()
    }

    #[test]
    fn emits_only_differences_per_source() {
        let mut mux = Mux::default();
        assert_eq!(merge(&mut mux, Source::File, vec![pod("a", "1"), pod("b", "1")], 1), ["set a", "set b"]);
        assert!(merge(&mut mux, Source::File, vec![pod("a", "1"), pod("b", "1")], 2).is_empty());
        assert_eq!(merge(&mut mux, Source::File, vec![pod("a", "2")], 3), ["remove b", "set a"]);
        assert_eq!(merge(&mut mux, Source::Api, vec![pod("c", "1")], 4), ["set c"]);
        assert_eq!(merge(&mut mux, Source::Api, vec![], 5), ["remove c"]);
        assert_eq!(mux.pods().count(), 1);
    }

    #[test]
    fn seen_time_is_kept_and_status_reconciles() {
        let mut mux = Mux::default();
        merge(&mut mux, Source::Api, vec![pod("a", "1")], 1);
        let mut changed = Pod::clone(&pod("a", "1"));
        changed.status = Some(Default::default());
        assert_eq!(merge(&mut mux, Source::Api, vec![Arc::new(changed)], 9), ["reconcile a"]);
        let seen = mux.pods().next().unwrap().annotation(CONFIG_SEEN).unwrap().to_owned();
        assert!(seen.starts_with("1970-01-01T00:00:01"), "{seen}");
    }

    #[test]
    fn silence_of_one_source_is_noticed() {
        let mut mux = Mux::default();
        merge(&mut mux, Source::File, vec![], 1);
        assert!(mux.all_seen(&[Source::File]));
        assert!(!mux.all_seen(&[Source::File, Source::Api]));
    }
}
