//! ServiceCIDRs: ready while they live, and kept by a finalizer while Services still have addresses out of them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use copepod_client::resources::{IP_ADDRESSES, SERVICE_CIDRS};
use copepod_client::{
    EventKind, Informer, InformerConfig, Meta, ObjectKey, ObjectRef, Outcome, Patch, WorkQueue,
};
use copepod_sys::clock;
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context::{Context, SyncResult};
use crate::step::{Step, execute_all};
use crate::views::{Condition, HasMeta, MetaOnly, condition};

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const MANAGED_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
const MANAGER: &str = "service-cidr-controller";
/// Until this long after a deletion allocators may still not know of it.
const GRACE: SignedDuration = SignedDuration::from_secs(10);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServiceCidr {
    metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    cidrs: Vec<IpNet>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

impl HasMeta for ServiceCidr {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// What has to happen.
#[derive(Debug, PartialEq)]
enum Plan {
    /// Steps, now.
    Do(Vec<Step>),
    /// Another look, later.
    Wait(Duration),
}

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue: WorkQueue<ObjectKey> = WorkQueue::new();
    let ranges: Informer<ServiceCidr> = Informer::new(InformerConfig::all(SERVICE_CIDRS));
    let selector = format!("{}={}", MANAGED_BY.0, MANAGED_BY.1);
    let addresses: Informer<MetaOnly> =
        Informer::new(InformerConfig::all(IP_ADDRESSES).labels(selector).metadata_only());
    let (all, changed) = (ranges.clone(), queue.clone());
    // Each may hold or free the deletion of every other one; there are never many.
    let again = move || all.list().iter().for_each(|range| changed.add(range.metadata.key()));
    let (ours, theirs) = (again.clone(), queue.clone());
    ranges.on_change(move |key, _| {
        theirs.add(key.clone());
        ours();
    });
    let dying = ranges.clone();
    addresses.on_change(move |_, _| {
        if dying.list().iter().any(|range| range.metadata.deleting()) {
            again();
        }
    });
    ranges.start(&context.reader, &context.shutdown);
    addresses.start(&context.reader, &context.shutdown);
    context.work(&queue, 1, move |context, key| {
        let (ranges, addresses) = (ranges.clone(), addresses.clone());
        async move {
            ranges.synced().await;
            addresses.synced().await;
            let Some(range) = ranges.get_key(&key) else { return Ok(Outcome::Done) };
            let names = addresses.list();
            let used = names.iter().filter_map(|a| a.metadata.name.parse().ok()).collect::<Vec<IpAddr>>();
            sync(&context, &range, &ranges.list(), &used).await
        }
    });
}

async fn sync(
    context: &Context,
    range: &ServiceCidr,
    all: &[Arc<ServiceCidr>],
    used: &[IpAddr],
) -> SyncResult {
    let steps = match plan(range, all, used, clock::now()) {
        Plan::Do(steps) => steps,
        Plan::Wait(pause) => return Ok(Outcome::After(pause)),
    };
    match execute_all(context, steps).await {
        Err(error) if !error.not_found() => {
            if !range.metadata.deleting() {
                let text = "The ServiceCIDR Status can not be set to Ready=True";
                let about = ObjectRef::of(&SERVICE_CIDRS, &range.metadata);
                context.recorder.event(about, EventKind::Warning, "KubernetesServiceCIDRError", text);
            }
            Err(error)
        }
        _ => Ok(Outcome::Done),
    }
}

fn plan(range: &ServiceCidr, all: &[Arc<ServiceCidr>], used: &[IpAddr], now: Timestamp) -> Plan {
    let meta = &range.metadata;
    let held = meta.finalizers.iter().any(|f| f == FINALIZER);
    let Some(deleted) = meta.deletion_timestamp else {
        let mut steps = Vec::new();
        if !held {
            steps.push(strategic(meta, json!({"metadata": {"finalizers": [FINALIZER]}})));
        }
        let ready = Condition::new("Ready", true, "", "Kubernetes Service CIDR is ready");
        steps.extend(tell(range, ready, now));
        return Plan::Do(steps);
    };
    if !can_go(range, all, used) {
        let text = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
        let condition = Condition::new("Ready", false, "Terminating", text);
        return Plan::Do(tell(range, condition, now).into_iter().collect());
    }
    let left = GRACE - now.duration_since(deleted);
    if left > SignedDuration::ZERO {
        return Plan::Wait(left.unsigned_abs());
    }
    let remove = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    Plan::Do(held.then(|| strategic(meta, remove)).into_iter().collect())
}

/// Whether every address out of the range is in another one as well.
fn can_go(range: &ServiceCidr, all: &[Arc<ServiceCidr>], used: &[IpAddr]) -> bool {
    let others = || all.iter().filter(|other| other.metadata.name != range.metadata.name);
    let elsewhere = |inside: &dyn Fn(&IpNet) -> bool| others().any(|o| o.spec.cidrs.iter().any(inside));
    let has_parent = range.spec.cidrs.iter().all(|cidr| elsewhere(&|other| other.contains(cidr)));
    let own = |address: &&IpAddr| range.spec.cidrs.iter().any(|cidr| cidr.contains(*address));
    has_parent || used.iter().filter(own).all(|address| elsewhere(&|other| other.contains(address)))
}

fn strategic(meta: &Meta, body: Value) -> Step {
    Step::Patch { resource: SERVICE_CIDRS, key: meta.key(), subresource: "", patch: Patch::Strategic(body) }
}

fn tell(range: &ServiceCidr, new: Condition, now: Timestamp) -> Option<Step> {
    let known = condition(&range.status.conditions, &new.r#type).is_some_and(|old| {
        (&old.status, &old.reason, &old.message) == (&new.status, &new.reason, &new.message)
    });
    let condition = json!({
        "type": new.r#type, "status": new.status, "reason": new.reason, "message": new.message,
        "lastTransitionTime": format!("{now:.0}"),
    });
    let body = json!({
        "apiVersion": SERVICE_CIDRS.api_version(), "kind": SERVICE_CIDRS.kind,
        "metadata": {"name": range.metadata.name}, "status": {"conditions": [condition]},
    });
    let patch = Patch::Apply { body, manager: MANAGER.to_owned(), force: true };
    let key = range.metadata.key();
    (!known).then_some(Step::Patch { resource: SERVICE_CIDRS, key, subresource: "status", patch })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &str, cidr: &str, metadata: Value) -> Arc<ServiceCidr> {
        let mut body = json!({"metadata": {"name": name}, "spec": {"cidrs": [cidr]}});
        copepod_client::apply_merge(&mut body["metadata"], &metadata);
        Arc::new(serde_json::from_value(body).unwrap())
    }

    #[test]
    fn a_range_goes_when_its_addresses_have_another_home() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let dying = json!({"finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let small = range("small", "10.96.1.0/24", dying.clone());
        let used: [IpAddr; 1] = ["10.96.1.7".parse().unwrap()];
        let all = [Arc::clone(&small)];
        let text = format!("{:?}", plan(&small, &all, &used, now));
        assert!(text.contains("Terminating") && text.contains("still IPAddresses"), "{text}");
        let freed = format!("{:?}", plan(&small, &all, &[], now));
        assert!(freed.contains("deleteFromPrimitiveList"), "{freed}");
        let all = [Arc::clone(&small), range("large", "10.96.0.0/16", json!({}))];
        assert_eq!(plan(&small, &all, &used, now), plan(&small, &all, &[], now), "contained in another");
        let soon: Timestamp = "2026-01-01T00:00:04Z".parse().unwrap();
        assert_eq!(plan(&small, &all, &used, soon), Plan::Wait(Duration::from_secs(6)));
    }

    #[test]
    fn a_new_range_is_held_and_ready() {
        let new = range("new", "10.1.0.0/24", json!({}));
        let Plan::Do(steps) = plan(&new, &[], &[], Timestamp::UNIX_EPOCH) else { panic!("steps") };
        assert_eq!(steps.len(), 2);
        assert!(format!("{steps:?}").contains("Kubernetes Service CIDR is ready"));
    }
}
