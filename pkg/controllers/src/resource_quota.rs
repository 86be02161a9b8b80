//! ResourceQuotas: what is used is counted anew whenever something was freed, and now and then in any case.
//!
//! Admission charges what is written; this controller gives back what is gone. It follows only those resources that
//! some quota names, keeps of each object the few facts that decide over its usage, and counts by listing the
//! namespace afresh, so that nothing it holds can be out of date.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use copepod_client::resources::RESOURCE_QUOTAS;
use copepod_client::{
    ClientError, Delta, Informer, InformerConfig, List, ListOptions, Meta, ObjectKey, Outcome, Patch,
    ResourceRef, WorkQueue,
};
use copepod_quota::{Amounts, Evaluator, Tally, Term, evaluators_of};
use copepod_sys::clock;
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, SyncResult};
use crate::discovery::discover;
use crate::status::merge_difference;
use crate::step::{Step, execute_all};

/// Pause between full counts (`--resource-quota-sync-period`).
const RESYNC: Duration = Duration::from_secs(5 * 60);
/// Pause before a resource is looked for again that a quota names and the server does not have; upstream's figure.
const UNKNOWN: Duration = Duration::from_secs(30);
/// How long a resource that cannot be listed may keep a count waiting.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Quota {
    metadata: Meta,
    spec: Value,
    status: Value,
}

/// Group and plural.
type Id = (String, String);

/// What is followed on behalf of the quotas.
#[derive(Debug, Clone)]
struct Controller {
    quotas: Informer<Quota>,
    queue: WorkQueue<ObjectKey>,
    followed: Arc<Mutex<BTreeMap<Id, Followed>>>,
}

#[derive(Debug, Clone)]
struct Followed {
    resource: ResourceRef,
    stop: CancellationToken,
}

/// Of an object: its name, and a digest of what decides over its usage.
#[derive(Debug, PartialEq)]
struct Facts<const KIND: u8>(Value);

impl<'de, const KIND: u8> Deserialize<'de> for Facts<KIND> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        Ok(Self(evaluator_of_kind(KIND).map_or(Value::Null, |evaluator| evaluator.facts(&object))))
    }
}

/// The evaluators that look into objects, by number.
fn evaluator_of_kind(kind: u8) -> Option<Evaluator> {
    [Evaluator::Pods, Evaluator::Services, Evaluator::Storage].into_iter().nth(kind.into())
}

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    let quotas: Informer<Quota> = Informer::new(InformerConfig::all(RESOURCE_QUOTAS));
    let changed = queue.clone();
    quotas.on_change(move |key, delta| {
        // Status is written by this controller and by admission, and neither is news.
        if delta.old().is_none_or(|old| old.spec != delta.object().spec) {
            changed.add(key.clone());
        }
    });
    quotas.start(&context.reader, &context.shutdown);
    let controller = Controller { quotas, queue: queue.clone(), followed: Arc::default() };
    let (all, again) = (controller.quotas.clone(), queue.clone());
    context.every(RESYNC, move |_| {
        all.list().iter().for_each(|quota| again.add(quota.metadata.key()));
        async { Ok(()) }
    });
    context.work(&queue, 2, move |context, key| {
        let controller = controller.clone();
        async move {
            controller.quotas.synced().await;
            controller.sync(&context, &key).await
        }
    });
}

fn hard(quota: &Quota) -> Vec<&str> {
    quota.spec["hard"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

fn named(quota: &Quota) -> BTreeSet<Id> {
    hard(quota).into_iter().flat_map(evaluators_of).collect()
}

impl Controller {
    async fn sync(&self, context: &Context, key: &ObjectKey) -> SyncResult {
        let Some(quota) = self.quotas.get_key(key) else {
            self.let_go();
            return Ok(Outcome::Done);
        };
        let needed = named(&quota);
        self.follow(context, &needed).await?;
        let (used, failure) = self.count(context, &quota, &needed).await;
        let known = {
            let followed = self.followed.lock();
            needed.iter().all(|id| followed.contains_key(id))
        };
        match execute_all(context, plan(&quota, &used).into_iter().collect()).await {
            // Admission was faster: count again with its charge.
            Err(error) if error.conflict() => return Ok(Outcome::Retry),
            Err(error) if !error.not_found() => return Err(error),
            _ => {}
        }
        match failure {
            Some(error) => Err(error),
            None if !known => Ok(Outcome::After(UNKNOWN)),
            None => Ok(Outcome::Done),
        }
    }

    /// Adds up what the quota counts; what could not be listed is left out, with the first error.
    async fn count(
        &self,
        context: &Context,
        quota: &Quota,
        needed: &BTreeSet<Id>,
    ) -> (Amounts, Option<ClientError>) {
        let terms = Term::of_quota(&json!({"spec": quota.spec}));
        let (mut used, mut failure) = (Amounts::default(), None);
        for id in needed {
            let Some(evaluator) = Evaluator::of(&id.0, &id.1) else { continue };
            let resource = self.followed.lock().get(id).map(|f| f.resource.clone());
            let Some(resource) = resource else { continue };
            let target = resource.collection(&quota.metadata.namespace);
            let mut tally = Tally::new(&evaluator, &terms, hard(quota).into_iter());
            match context.client.list_all::<Value>(&target, &ListOptions::default()).await {
                Ok(List { items, .. }) => {
                    let now = clock::now();
                    items.iter().for_each(|object| tally.add(object, now));
                    used.add(&tally.used());
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        (used, failure)
    }

    /// Begins to follow what is named and not followed yet, and waits until it is known.
    async fn follow(&self, context: &Context, needed: &BTreeSet<Id>) -> Result<(), ClientError> {
        let missing = || {
            needed.iter().filter(|id| !self.followed.lock().contains_key(*id)).cloned().collect::<Vec<_>>()
        };
        if missing().is_empty() {
            return Ok(());
        }
        let (found, _) = discover(&context.client).await?;
        for id in missing() {
            let served = found.iter().find(|d| {
                let resource = &d.resource;
                (&*resource.group, &*resource.plural) == (id.0.as_str(), id.1.as_str())
                    && resource.namespaced
                    && d.has(&["create", "list", "watch", "delete"])
            });
            let (Some(served), Some(evaluator)) = (served, Evaluator::of(&id.0, &id.1)) else { continue };
            let (resource, stop) = (served.resource.clone(), context.shutdown.child_token());
            let synced = self.watch(context, &resource, &evaluator, &stop);
            self.followed.lock().insert(id, Followed { resource, stop });
            if tokio::time::timeout(PATIENCE, synced).await.is_err() {
                tracing::warn!(resource = %served.resource, "cannot be listed; counted without being followed");
            }
        }
        Ok(())
    }

    fn watch(
        &self,
        context: &Context,
        resource: &ResourceRef,
        evaluator: &Evaluator,
        stop: &CancellationToken,
    ) -> futures::future::BoxFuture<'static, ()> {
        match evaluator {
            Evaluator::Pods => self.watch_facts::<0>(context, resource, evaluator, stop),
            Evaluator::Services => self.watch_facts::<1>(context, resource, evaluator, stop),
            Evaluator::Storage => self.watch_facts::<2>(context, resource, evaluator, stop),
            Evaluator::Devices | Evaluator::Number { .. } => {
                self.watch_facts::<{ u8::MAX }>(context, resource, evaluator, stop)
            }
        }
    }

    fn watch_facts<const KIND: u8>(
        &self,
        context: &Context,
        resource: &ResourceRef,
        evaluator: &Evaluator,
        stop: &CancellationToken,
    ) -> futures::future::BoxFuture<'static, ()> {
        let mut config = InformerConfig::all(resource.clone());
        config.metadata_only = evaluator_of_kind(KIND).is_none();
        let informer: Informer<Facts<KIND>> = Informer::new(config);
        let (quotas, queue, evaluator) = (self.quotas.clone(), self.queue.clone(), evaluator.clone());
        informer.on_change(move |key, delta| {
            let freed = match delta {
                Delta::Added(_) => false,
                Delta::Updated { old, new } => old != new,
                Delta::Deleted(_) => true,
            };
            if freed {
                let here = quotas.list_namespace(&key.namespace);
                let counting = here.iter().filter(|q| hard(q).iter().any(|name| evaluator.counts(name)));
                counting.for_each(|quota| queue.add(quota.metadata.key()));
            }
        });
        informer.start(&context.client, stop);
        Box::pin(async move { informer.synced().await })
    }

    /// Stops to follow what no quota names any more.
    fn let_go(&self) {
        let needed: BTreeSet<Id> = self.quotas.list().iter().flat_map(|quota| named(quota)).collect();
        self.followed.lock().retain(|id, followed| {
            let keep = needed.contains(id);
            if !keep {
                followed.stop.cancel();
            }
            keep
        });
    }
}

/// The status that follows from a count. What could not be counted keeps its last figure.
fn plan(quota: &Quota, counted: &Amounts) -> Option<Step> {
    let hard = quota.spec.get("hard").cloned().unwrap_or_else(|| json!({}));
    let mut used = Amounts::read(quota.status.get("used"));
    for (name, amount) in &counted.0 {
        used.set(name.as_str(), *amount);
    }
    used.0.retain(|name, _| hard.get(name).is_some());
    let same = quota.status.get("hard") == Some(&hard)
        && quota.status.get("used").is_some_and(|old| Amounts::read(Some(old)) == used);
    if same {
        return None;
    }
    let difference = merge_difference(&quota.status, &json!({"hard": hard, "used": used.to_value()}));
    let meta = &quota.metadata;
    let body = json!({"metadata": {"resourceVersion": meta.resource_version}, "status": difference});
    Some(Step::Patch {
        resource: RESOURCE_QUOTAS,
        key: meta.key(),
        subresource: "status",
        patch: Patch::Merge(body),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(spec: Value, status: Value) -> Quota {
        serde_json::from_value(json!({"metadata": {"name": "q", "namespace": "ns", "resourceVersion": "7"}, "spec": spec, "status": status}))
            .unwrap()
    }

    #[test]
    fn figures_follow_the_spec_and_the_count() {
        let status = json!({"hard": {"pods": "1", "secrets": "2"}, "used": {"pods": "1", "secrets": "1"}});
        let quota = quota(json!({"hard": {"pods": "5", "cpu": "1"}}), status);
        let mut counted = Amounts::default();
        counted.set("cpu", "500m".parse().unwrap());
        let Some(Step::Patch { patch: Patch::Merge(body), .. }) = plan(&quota, &counted) else {
            panic!("a patch")
        };
        let status = json!({
            "hard": {"pods": "5", "cpu": "1", "secrets": null}, "used": {"cpu": "500m", "secrets": null}});
        assert_eq!(body, json!({"metadata": {"resourceVersion": "7"}, "status": status}));
    }

    #[test]
    fn nothing_is_written_twice() {
        let hard = json!({"pods": "5"});
        let mut counted = Amounts::default();
        counted.set("pods", "1".parse().unwrap());
        let known = quota(json!({"hard": hard}), json!({"hard": hard, "used": {"pods": "1"}}));
        assert_eq!(plan(&known, &counted), None);
        assert!(
            plan(&quota(json!({"hard": hard}), Value::Null), &Amounts::default()).is_some(),
            "the first look"
        );
    }

    #[test]
    fn only_changes_that_free_something_are_noticed() {
        let pod =
            |phase: &str| serde_json::from_value::<Facts<0>>(json!({"status": {"phase": phase}})).unwrap();
        assert_eq!(pod("Pending"), pod("Running"));
        assert_ne!(pod("Running"), pod("Succeeded"));
    }
}
