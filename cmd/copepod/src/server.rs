//! `copepod server`: the agent. It prepares the machine, sees to containerd, and is kubelet and proxy from then on.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use copepod_bootstrap::containerd::{self, Containerd, Machine};
use copepod_bootstrap::instance::Instance;
use copepod_bootstrap::manifests::{COPEPOD_IMAGE, ETCD_IMAGE, PAUSE_IMAGE};
use copepod_bootstrap::{Node, addons, cni, kubeconfig, manifests, pki, preflight};
use copepod_client::{Client, ClientConfig};
use copepod_cni::{NodeStore, ipam};
use copepod_config::ProxyMode;
use tokio_util::sync::CancellationToken;

use crate::check::describe;
use crate::node_config::NodeArgs;
use crate::runtime::{Threads, component};

/// Between two tries at something that another process must become ready for.
const RETRY: Duration = Duration::from_millis(500);

/// Flags of `server`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let node = Arc::new(args.node.node()?);
    component("copepod", Threads::Several, |shutdown| serve(node, shutdown))
}

async fn serve(node: Arc<Node>, shutdown: CancellationToken) -> anyhow::Result<()> {
    let _instance = Instance::acquire(&node.layout)?;
    tracing::info!(node = node.config.node_name, ip = %node.ip(), "starting");
    prepare(&node)?;
    let machine = Machine::detect();
    let runtime = containerd::ensure_running(&node, machine).await?;
    tracing::info!(pid = runtime.pid(), adopted = runtime.adopted, "containerd runs");
    import_images(&node).await?;
    let store = NodeStore::open(&node.layout.node_store())?;
    let addresses =
        ipam::Config { socket: node.layout.ipam_socket(), ranges: node.config.cluster_cidrs.clone() };
    let kubelet = kubelet_config(&node)?;
    let proxy = proxy_config(&node);
    copepod_supervisor::spawn("containerd", supervise(Arc::clone(&node), machine, runtime, shutdown.clone()));
    copepod_supervisor::spawn("addons", apply_addons(Arc::clone(&node), shutdown.clone()));
    let stop = shutdown.clone();
    let result = tokio::try_join!(
        async { Box::pin(ipam::serve(store, addresses, stop.clone())).await.context("pod addresses") },
        async { Box::pin(copepod_kubelet::run(kubelet, stop.clone())).await.context("kubelet") },
        async { Box::pin(copepod_proxy::run(proxy, stop.clone())).await.context("kube-proxy") },
    );
    shutdown.cancel();
    result.map(drop)
}

/// What lies on disk before anything runs.
fn prepare(node: &Node) -> anyhow::Result<()> {
    // After a restart of the agent the control plane holds its ports, as it should.
    let running = node.layout.containerd_socket().exists();
    let problems = preflight::check(node, running);
    if problems.iter().any(|p| p.fatal) {
        bail!("this machine cannot run a node:\n{}", describe(&problems));
    }
    for problem in problems {
        tracing::warn!(fix = problem.fix, "{}", problem.what);
    }
    let now = copepod_sys::clock::now();
    let (authorities, issued) = pki::ensure(node, now)?;
    if !issued.is_empty() {
        tracing::info!(?issued, "certificates issued");
    }
    kubeconfig::ensure(node, &authorities, now)?;
    cni::ensure(node)?;
    let written = manifests::ensure(node)?;
    if !written.is_empty() {
        tracing::info!(?written, "manifests written");
    }
    Ok(())
}

async fn import_images(node: &Node) -> anyhow::Result<()> {
    let importer = copepod_image::Importer::connect(&node.layout.containerd_socket()).await?;
    let directory = node.bundle.join("images");
    // What the node itself needs must be there; the bundle may hold more.
    let mut imported = importer.ensure_present(&[PAUSE_IMAGE, ETCD_IMAGE, COPEPOD_IMAGE], &directory).await?;
    imported.extend(importer.ensure_all(&directory).await?);
    if !imported.is_empty() {
        tracing::info!(?imported, "images imported");
    }
    Ok(())
}

/// Starts containerd again whenever it is gone. Pods go on meanwhile: their shims do not depend on it.
async fn supervise(node: Arc<Node>, machine: Machine, mut runtime: Containerd, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            gone = runtime.gone() => if let Err(error) = gone {
                return tracing::error!(%error, "containerd cannot be watched");
            },
        }
        tracing::warn!("containerd is gone; starting it again");
        runtime = loop {
            match containerd::ensure_running(&node, machine).await {
                Ok(runtime) => break runtime,
                Err(error) => {
                    tracing::error!(error = %copepod_client::chain(&error), "containerd does not start")
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(RETRY) => {}
            }
        };
    }
}

/// Applies the addons once the API server answers. It has no event for that yet, so it is asked now and then.
async fn apply_addons(node: Arc<Node>, shutdown: CancellationToken) {
    loop {
        let why = match apply_addons_once(&node).await {
            Ok(()) => return tracing::info!("addons applied"),
            Err(error) => error,
        };
        tracing::debug!(error = format!("{why:#}"), "addons wait for the API server");
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

async fn apply_addons_once(node: &Node) -> anyhow::Result<()> {
    // The administrators' own binding is one of the addons, hence the identity that needs none.
    let config = ClientConfig::from_kubeconfig(&node.layout.kubeconfig("super-admin"))?;
    let client = Client::new(&config.user_agent("copepod"))?;
    Ok(addons::apply(&client, node).await?)
}

fn kubelet_config(node: &Node) -> anyhow::Result<copepod_kubelet::Config> {
    let layout = &node.layout;
    let config = copepod_kubelet::Config {
        node_name: node.config.node_name.clone(),
        node_ips: node.config.node_ips.clone(),
        node_labels: node.config.node_labels.clone(),
        root_dir: layout.kubelet(),
        pod_logs_dir: layout.pod_logs(),
        container_logs_dir: layout.container_logs(),
        static_pod_path: Some(layout.manifests()),
        runtime_endpoint: format!("unix://{}", layout.containerd_socket().display()),
        kubeconfig: Some(layout.kubeconfig("kubelet")),
        cluster_dns: node.config.dns_ip().into_iter().collect(),
        cluster_domain: node.config.cluster_domain.clone(),
        resolv_conf: Some(layout.at("etc/resolv.conf")),
        max_pods: node.config.max_pods,
        eviction_hard: node.config.eviction_hard.clone(),
        pod_cidr: node.config.cluster_cidrs.first().map(ToString::to_string),
        server: Some(copepod_kubelet::config::ServerConfig {
            bind: std::net::SocketAddr::from(([0, 0, 0, 0], 10250)),
            cert_file: Some(layout.kubelet().join("pki/kubelet.crt")),
            key_file: Some(layout.kubelet().join("pki/kubelet.key")),
            client_ca_file: Some(layout.pki().join("ca.crt")),
        }),
        ..copepod_kubelet::Config::default()
    };
    let problems = config.problems();
    anyhow::ensure!(problems.is_empty(), "the kubelet's configuration cannot work: {}", problems.join("; "));
    Ok(config)
}

fn proxy_config(node: &Node) -> copepod_proxy::Config {
    let mode = match node.config.proxy_mode {
        ProxyMode::Nftables => copepod_proxy::Mode::Nftables,
        ProxyMode::Iptables => copepod_proxy::Mode::Iptables,
    };
    copepod_proxy::Config {
        kubeconfig: node.layout.kubeconfig("kube-proxy"),
        node_name: node.config.node_name.clone(),
        mode,
        node_ips: node.config.node_ips.clone(),
        cluster_cidrs: node.config.cluster_cidrs.clone(),
        service_cidrs: node.config.service_cidrs.clone(),
        ..copepod_proxy::Config::default()
    }
}
