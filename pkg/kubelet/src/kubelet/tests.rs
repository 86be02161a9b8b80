//! The core on the in-memory runtime.

use std::time::Duration;

use copepod_cri::fake::FakeRuntime;
use copepod_volume::{NodeFacts, VolumeConfig, Volumes};
use k8s_openapi::api::core::v1::Pod;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::environment::Environment;
use crate::events::Events;
use crate::objects::NoObjects;
use crate::pleg::{self, PlegEvent};
use crate::runtime::RuntimePorts;
use crate::runtime::images::ImageManager;
use crate::runtime_class::RuntimeClasses;
use crate::volumes::KubeletVolumes;

struct World {
    _dir: tempfile::TempDir,
    fake: Arc<FakeRuntime>,
    kubelet: Arc<Kubelet>,
    workers: Arc<PodWorkers>,
    shutdown: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn environment(config: &Config, shutdown: &CancellationToken) -> Arc<Environment> {
    let pods = config.root_dir.join("pods");
    Arc::new(Environment::new(Arc::new(NoObjects), None, (NodeFacts::default(), pods), shutdown))
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let config = Arc::new(Config {
        node_name: "n".to_owned(),
        root_dir: dir.path().join("kubelet"),
        pod_logs_dir: dir.path().join("logs"),
        container_logs_dir: dir.path().join("links"),
        cgroups_per_qos: false,
        resolv_conf: None,
        ..Config::default()
    });
    let fake = Arc::new(FakeRuntime::default());
    fake.add_image("i:1");
    let shutdown = CancellationToken::new();
    let events: Arc<dyn EventSink> = Arc::new(Events::new(None, "n"));
    let volumes = Volumes::new(
        VolumeConfig { root: config.root_dir.clone(), node: NodeFacts::default() },
        Arc::new(NoObjects),
    );
    let volumes = Arc::new(KubeletVolumes::new(volumes, None));
    let images = ImageManager::new(fake.clone(), Arc::new(NoObjects), events.clone(), 1);
    let node = Arc::new(RuntimeState::new(Vec::new()));
    let ports = RuntimePorts {
        runtime: fake.clone(),
        volumes: volumes.clone(),
        environment: environment(&config, &shutdown),
        events: events.clone(),
        classes: RuntimeClasses::new(None),
        state: node.clone(),
    };
    let slot: Arc<OnceLock<Arc<PodWorkers>>> = Arc::default();
    let woken = slot.clone();
    let wake = Arc::new(move |uid: &str| {
        if let Some(workers) = woken.get() {
            workers.wake(uid);
        }
    });
    let kubelet = Kubelet::new(KubeletParts {
        pods: PodRuntime::new(config.clone(), ports, images, 1 << 30, Vec::new()),
        config,
        runtime: fake.clone(),
        images: fake.clone(),
        prober: Prober::new(fake.clone(), events.clone(), wake),
        volumes,
        events,
        node,
        mirrors: None,
        admission: Admission::default(),
    });
    let workers = PodWorkers::new(kubelet.clone());
    assert!(kubelet.workers.set(workers.clone()).is_ok() && slot.set(workers.clone()).is_ok());
    let woken = workers.clone();
    let sink = Arc::new(move |event| match event {
        PlegEvent::Pod(uid) => drop(woken.wake(&uid)),
        PlegEvent::All => woken.wake_all(),
    });
    copepod_supervisor::spawn("test pleg", pleg::run(fake.clone(), sink, shutdown.clone()));
    World { _dir: dir, fake, kubelet, workers, shutdown }
}

fn pod(policy: &str) -> PodRef {
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "p", "namespace": "d", "uid": "u",
            "annotations": {"kubernetes.io/config.source": "file"}},
        "spec": {"hostNetwork": true, "restartPolicy": policy, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent"}]}
    }))
    .unwrap();
    Arc::new(pod)
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let poll = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), poll).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

impl World {
    fn status(&self) -> PodStatus {
        self.kubelet.statuses.get("u").unwrap_or_default()
    }

    fn starts(&self) -> usize {
        self.fake.calls().iter().filter(|c| c.starts_with("start_container")).count()
    }

    fn waiting_reason(&self) -> Option<String> {
        self.status().container_statuses?.first()?.state.clone()?.waiting?.reason
    }
}

#[tokio::test]
async fn a_pod_runs_restarts_backs_off_and_goes() {
    let world = world();
    world.workers.set(pod("Always"));
    until("running", || world.status().phase.as_deref() == Some("Running") && world.starts() == 1).await;
    world.fake.exit("c", 1);
    until("restarted at once", || world.starts() == 2).await;
    world.fake.exit("c", 1);
    until("held back", || world.waiting_reason().as_deref() == Some("CrashLoopBackOff")).await;
    assert_eq!(world.starts(), 2);
    assert_eq!(world.status().container_statuses.unwrap()[0].restart_count, 1);
    world.workers.remove("u");
    until("gone", || world.workers.view("u").is_none()).await;
    assert!(world.fake.list_containers(None).await.unwrap().is_empty());
    assert!(world.fake.list_pod_sandboxes(None).await.unwrap().is_empty());
    assert!(world.kubelet.statuses.get("u").is_none());
}

#[tokio::test]
async fn a_finished_pod_stops_its_sandbox_and_stays_known() {
    let world = world();
    world.workers.set(pod("Never"));
    until("running", || world.starts() == 1 && world.status().phase.as_deref() == Some("Running")).await;
    world.fake.exit("c", 0);
    until("done", || world.workers.view("u").is_some_and(|v| v.phase == Phase::Done)).await;
    assert_eq!(world.status().phase.as_deref(), Some("Succeeded"));
    assert!(world.fake.calls().iter().any(|c| c.starts_with("stop_pod_sandbox")));
    assert_eq!(world.fake.list_containers(None).await.unwrap().len(), 1, "its logs can still be read");
}

#[tokio::test]
async fn a_sandbox_that_fails_is_tried_again() {
    let world = world();
    world.fake.fail_next("run_pod_sandbox", tonic::Code::Unknown, "no");
    world.workers.set(pod("Always"));
    until("running after the retry", || world.starts() == 1).await;
    assert_eq!(world.fake.calls().iter().filter(|c| c.starts_with("run_pod_sandbox")).count(), 2);
}

fn api_pod(name: &str) -> PodRef {
    let mut pod = (*pod("Always")).clone();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(name.to_owned());
    pod.metadata.annotations = None;
    let scheduled =
        serde_json::json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]});
    pod.status = serde_json::from_value(scheduled).unwrap();
    Arc::new(pod)
}

#[tokio::test]
async fn a_refused_pod_takes_no_room_and_keeps_its_refusal() {
    let world = world();
    world.kubelet.admission.set_facts(crate::admission::NodeFacts {
        allocatable: [("pods".to_owned(), "1".parse().unwrap())].into(),
        ..crate::admission::NodeFacts::default()
    });
    let over = |uid: &str| world.workers.view(uid).is_some_and(|v| v.phase == Phase::Done);
    let reason = |uid: &str| world.kubelet.statuses.get(uid).and_then(|s| s.reason);
    world.workers.set(api_pod("a"));
    until("running", || world.starts() == 1).await;
    for uid in ["b", "c"] {
        world.workers.set(api_pod(uid));
        until("refused", || over(uid)).await;
        let status = world.kubelet.statuses.get(uid).unwrap();
        // The second is not told of the first one's place.
        let why =
            "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1";
        assert_eq!((reason(uid).as_deref(), status.message.as_deref()), (Some("OutOfpods"), Some(why)));
        assert_eq!((status.phase.as_deref(), status.container_statuses), (Some("Failed"), None));
        assert!(status.conditions.is_none() && status.host_ip.is_none());
    }
    world.workers.remove("a");
    until("gone", || world.workers.view("a").is_none()).await;
    // Both still stand as Pending in the API.
    world.workers.set(api_pod("d"));
    until("running", || world.starts() == 2).await;
    // What the API says of the end of a pod that we never knew stays as it is.
    let mut before = (*api_pod("e")).clone();
    before.status =
        serde_json::from_value(serde_json::json!({"phase": "Failed", "reason": "OutOfpods"})).unwrap();
    world.workers.set(Arc::new(before));
    until("known to be over", || over("e")).await;
    assert_eq!(reason("e").as_deref(), Some("OutOfpods"));
    assert_eq!(world.kubelet.statuses.get("e").unwrap().container_statuses, None);
}
