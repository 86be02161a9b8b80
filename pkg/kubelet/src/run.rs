//! Wiring: builds the parts and runs them until shutdown.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use copepod_client::{Client, ClientConfig};
use copepod_cri::CriClient;
use copepod_volume::{NodeFacts, ObjectSource, VolumeConfig, Volumes};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::admission::Admission;
use crate::config::Config;
use crate::environment::Environment;
use crate::error::KubeletError;
use crate::events::Events;
use crate::healthz;
use crate::kubelet::{Kubelet, KubeletParts};
use crate::mirror::Mirrors;
use crate::node::info::{self, Machine};
use crate::node::{NodeAgent, NodeAgentParts, status};
use crate::objects::{ApiObjects, NoObjects};
use crate::pleg::{self, PlegEvent};
use crate::pod::PodExt;
use crate::ports::{EventSink, NodeView, PullSecrets};
use crate::prober::Prober;
use crate::runtime::images::ImageManager;
use crate::runtime::{PodRuntime, RuntimePorts, cgroup};
use crate::runtime_class::RuntimeClasses;
use crate::runtime_state::RuntimeState;
use crate::server;
use crate::source::mux::{Mux, PodChange};
use crate::source::{Source, SourceUpdate, api, file};
use crate::volumes::KubeletVolumes;
use crate::worker::PodWorkers;

/// Pending updates of sources; each is a full set, so few are enough.
const UPDATES: usize = 4;

/// Runs the kubelet until `shutdown`; pods go on running afterwards.
///
/// # Errors
/// When the configuration cannot work, or a directory or listener cannot be had. A runtime or API
/// server that is away is waited for instead.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), KubeletError> {
    let problems = config.problems();
    if !problems.is_empty() {
        return Err(KubeletError::Config(problems));
    }
    make_directories(&config)?;
    if let Some(adjust) = config.oom_score_adj
        && let Err(error) = std::fs::write("/proc/self/oom_score_adj", adjust.to_string())
    {
        tracing::info!(adjust, %error, "own oom_score_adj stays as it is");
    }
    let config = Arc::new(config);
    let client = api_client(&config)?;
    let machine = Machine::detect();
    let slot: Arc<OnceLock<Arc<PodWorkers>>> = Arc::default();
    let kubelet = build(&config, client.as_ref(), &machine, &slot, &shutdown)?;
    let workers = PodWorkers::new(kubelet.clone());
    // Set once, here: nobody else has the slots.
    drop(slot.set(workers.clone()));
    drop(kubelet.workers.set(workers.clone()));
    if let Err(error) = cgroup::ensure_qos(&config, 0) {
        tracing::warn!(%error, "QoS cgroups cannot be set up; limits of containers still hold");
    }
    let view: Arc<dyn NodeView> = kubelet.clone();
    healthz::serve(config.healthz_bind, Arc::new(move || view.healthy()), shutdown.clone()).await?;
    server::start(config.clone(), kubelet.clone(), client.clone(), shutdown.clone()).await?;
    spawn_tasks(&config, client.as_ref(), &machine, &kubelet, &workers, &shutdown);
    let (send, receive) = mpsc::channel(UPDATES);
    let configured = spawn_sources(&config, client, &kubelet, send, &shutdown);
    sync_loop(kubelet, workers, receive, configured, shutdown).await;
    Ok(())
}

fn make_directories(config: &Config) -> Result<(), KubeletError> {
    let dirs = [
        config.root_dir.join("pods"),
        config.root_dir.join("plugins"),
        config.root_dir.join("plugins_registry"),
        config.root_dir.join("device-plugins"),
        config.root_dir.join("seccomp"),
        config.pod_logs_dir.clone(),
        config.container_logs_dir.clone(),
    ];
    for path in dirs {
        std::fs::create_dir_all(&path).map_err(|source| KubeletError::Directory { path, source })?;
    }
    Ok(())
}

fn api_client(config: &Config) -> Result<Option<Client>, KubeletError> {
    let Some(path) = &config.kubeconfig else { return Ok(None) };
    let failed = |error: copepod_client::ClientError| KubeletError::Client(copepod_client::chain(&error));
    let settings =
        ClientConfig::from_kubeconfig(path).map_err(failed)?.user_agent("kubelet/v1.37.2 (copepod)");
    Client::new(&settings).map(Some).map_err(failed)
}

fn build(
    config: &Arc<Config>,
    client: Option<&Client>,
    machine: &Machine,
    slot: &Arc<OnceLock<Arc<PodWorkers>>>,
    shutdown: &CancellationToken,
) -> Result<Arc<Kubelet>, KubeletError> {
    let cri = CriClient::new(&config.runtime_endpoint, config.runtime_request_timeout)
        .map_err(|source| KubeletError::Runtime { endpoint: config.runtime_endpoint.clone(), source })?;
    let cri = Arc::new(cri);
    let mut host_ips = config.node_ips.clone();
    if host_ips.is_empty() {
        host_ips.extend(info::detect_address());
    }
    let events: Arc<dyn EventSink> = Arc::new(Events::new(client, &config.node_name));
    let wake = |slot: &Arc<OnceLock<Arc<PodWorkers>>>| {
        let slot = slot.clone();
        move |uid: &str| {
            if let Some(workers) = slot.get() {
                workers.wake(uid);
            }
        }
    };
    let facts = node_facts(config, machine, &host_ips);
    let api_objects =
        client.map(|c| ApiObjects::new(c.clone(), &config.node_name, events.clone(), wake(slot)));
    let objects: Arc<dyn ObjectSource> = match &api_objects {
        Some(objects) => objects.clone(),
        None => Arc::new(NoObjects),
    };
    let secrets: Arc<dyn PullSecrets> = match &api_objects {
        Some(objects) => objects.clone(),
        None => Arc::new(NoObjects),
    };
    let volume_config = VolumeConfig { root: config.root_dir.clone(), node: facts.clone() };
    let volumes = Arc::new(KubeletVolumes::new(Volumes::new(volume_config, objects.clone()), api_objects));
    let environment =
        Arc::new(Environment::new(objects, client, (facts, config.root_dir.join("pods")), shutdown));
    let images = ImageManager::new(cri.clone(), secrets, events.clone(), config.max_parallel_image_pulls);
    let node = Arc::new(RuntimeState::new(host_ips.clone()));
    let ports = RuntimePorts {
        runtime: cri.clone(),
        volumes: volumes.clone(),
        environment,
        events: events.clone(),
        classes: RuntimeClasses::new(client.cloned()),
        state: node.clone(),
    };
    Ok(Kubelet::new(KubeletParts {
        pods: PodRuntime::new(config.clone(), ports, images, machine.memory, host_ips),
        config: config.clone(),
        runtime: cri.clone(),
        images: cri.clone(),
        prober: Prober::new(cri, events.clone(), Arc::new(wake(slot))),
        volumes,
        events,
        node,
        mirrors: client.map(|c| Arc::new(Mirrors::new(c.clone(), &config.node_name))),
        admission: Admission::new(config.allowed_unsafe_sysctls.clone()),
    }))
}

fn node_facts(config: &Config, machine: &Machine, host_ips: &[IpAddr]) -> NodeFacts {
    let storage = info::filesystem(&config.root_dir).map_or(0, |f| f.0);
    let left = status::allocatable(config, &status::capacity(config, machine, storage));
    let of = |name: &str| left.get(name).copied().unwrap_or_default();
    NodeFacts {
        host_ips: host_ips.to_vec(),
        cpu: of("cpu"),
        memory: of("memory"),
        ephemeral_storage: of("ephemeral-storage"),
    }
}

fn spawn_tasks(
    config: &Arc<Config>,
    client: Option<&Client>,
    machine: &Machine,
    kubelet: &Arc<Kubelet>,
    workers: &Arc<PodWorkers>,
    shutdown: &CancellationToken,
) {
    copepod_supervisor::spawn(
        "runtime state",
        kubelet.node.clone().run(kubelet.runtime.clone(), shutdown.clone()),
    );
    let woken = workers.clone();
    let sink = Arc::new(move |event| match event {
        PlegEvent::Pod(uid) => {
            woken.wake(&uid);
        }
        PlegEvent::All => woken.wake_all(),
    });
    copepod_supervisor::spawn("pleg", pleg::run(kubelet.runtime.clone(), sink, shutdown.clone()));
    // A network that becomes ready lets waiting pods start at once.
    let (mut changes, woken, stop) = (kubelet.node.changes(), workers.clone(), shutdown.clone());
    copepod_supervisor::spawn("readiness", async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
            woken.wake_all();
        }
    });
    let Some(client) = client else { return };
    let mirrors = kubelet.mirrors.clone();
    let lookup = Arc::new(move |namespace: &str, name: &str| mirrors.as_ref()?.uid(namespace, name));
    copepod_supervisor::spawn(
        "status",
        kubelet.statuses.clone().run(client.clone(), lookup, shutdown.clone()),
    );
    let agent = NodeAgent::new(NodeAgentParts {
        config: config.clone(),
        machine: machine.clone(),
        kubelet: kubelet.clone(),
        client: client.clone(),
    });
    copepod_supervisor::spawn("node", agent.run(shutdown.clone()));
}

/// Starts the sources; which ones.
fn spawn_sources(
    config: &Arc<Config>,
    client: Option<Client>,
    kubelet: &Arc<Kubelet>,
    updates: mpsc::Sender<SourceUpdate>,
    shutdown: &CancellationToken,
) -> Vec<Source> {
    let mut configured = Vec::new();
    if let Some(dir) = config.static_pod_path.clone() {
        configured.push(Source::File);
        copepod_supervisor::spawn("file source", file::run(dir, config.node_name.clone(), updates.clone()));
    }
    if let Some(client) = client {
        configured.push(Source::Api);
        let watched = kubelet.clone();
        let seen = Arc::new(move |pods: &api::ApiPods| watched.observe_mirrors(pods));
        let task = api::run(client, config.node_name.clone(), updates, seen, shutdown.clone());
        copepod_supervisor::spawn("api source", task);
    }
    configured
}

async fn sync_loop(
    kubelet: Arc<Kubelet>,
    workers: Arc<PodWorkers>,
    mut updates: mpsc::Receiver<SourceUpdate>,
    configured: Vec<Source>,
    shutdown: CancellationToken,
) {
    let mut mux = Mux::default();
    let mut keeping_house = false;
    loop {
        let update = tokio::select! {
            () = shutdown.cancelled() => return,
            update = updates.recv() => update,
        };
        let Some(update) = update else {
            // No source at all: nothing to do but to serve.
            return shutdown.cancelled().await;
        };
        for change in mux.merge(update, now()) {
            apply(&kubelet, &workers, change);
        }
        if !keeping_house && mux.all_seen(&configured) {
            keeping_house = true;
            copepod_supervisor::spawn("housekeeping", kubelet.clone().keep_house(shutdown.clone()));
            copepod_supervisor::spawn("image collection", kubelet.clone().collect_images(shutdown.clone()));
            copepod_supervisor::spawn("node pressure", kubelet.clone().watch_pressure(shutdown.clone()));
        }
    }
}

fn now() -> Timestamp {
    copepod_sys::clock::now()
}

fn apply(kubelet: &Arc<Kubelet>, workers: &Arc<PodWorkers>, change: PodChange) {
    match change {
        PodChange::Set(pod) => {
            tracing::info!(pod = pod.full_name(), uid = pod.uid(), deleted = pod.is_deleted(), "pod set");
            kubelet.statuses.reconcile(&pod);
            workers.set(pod);
        }
        PodChange::Reconcile(pod) => kubelet.statuses.reconcile(&pod),
        PodChange::Remove(pod) => {
            tracing::info!(pod = pod.full_name(), uid = pod.uid(), "pod removed");
            workers.remove(pod.uid());
        }
    }
}
