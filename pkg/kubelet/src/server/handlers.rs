//! From a request to its answer.
#![expect(clippy::result_large_err, reason = "the error is the answer itself, made once per request")]

use std::sync::Arc;
use std::time::Duration;

use copepod_cri::v1 as cri;
use copepod_pki::Subject;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::body::{self, Body, json as json_answer, text};
use super::route::{Query, Route, Target, verb};
use super::{Server, logs, metrics, stats, stream};
use crate::types::{PodRef, RuntimeContainer};

/// Answers one request, refusals included.
pub(super) async fn handle(
    server: &Arc<Server>,
    certificate: Option<&Subject>,
    request: Request<Incoming>,
) -> Response<Body> {
    let Some(route) = Route::parse(request.uri().path()) else {
        return text(StatusCode::NOT_FOUND, "404 page not found");
    };
    let verb = verb(request.method());
    let allowed = server.access.check(certificate, request.headers(), verb, route.subresources()).await;
    if let Err((status, why)) = allowed {
        return text(status, &why);
    }
    match route {
        Route::Ping => text(StatusCode::OK, "ok"),
        Route::Healthz | Route::SyncLoop => healthz(server),
        Route::Pods => json_answer(&pod_list(server.view.pods())),
        Route::RunningPods => running_pods(server).await,
        Route::Logs(target) => logs::answer(server, &target, request.uri().query()).await,
        Route::Exec(target) => exec(server, &target, request).await,
        Route::Attach(target) => attach(server, &target, request).await,
        Route::PortForward(target) => port_forward(server, &target, request).await,
        Route::Run(target) => run(server, &target, &request).await,
        Route::Checkpoint(target) => checkpoint(server, &target, request.method()).await,
        Route::Summary => stats::summary(server).await,
        Route::Metrics => metrics::process(server),
        Route::MetricsResource => metrics::resource(server).await,
        Route::MetricsCadvisor => metrics::cadvisor(server).await,
        Route::Configz => json_answer(&configz(server)),
    }
}

fn healthz(server: &Server) -> Response<Body> {
    match server.view.healthy() {
        Ok(()) => text(StatusCode::OK, "ok"),
        Err(why) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("[-]syncloop failed: {why}\nhealthz check failed"),
        ),
    }
}

fn pod_list(pods: Vec<PodRef>) -> Value {
    let items: Vec<Value> = pods.iter().filter_map(|pod| serde_json::to_value(&**pod).ok()).collect();
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
}

/// Pods as the runtime has them: name, UID and containers only.
async fn running_pods(server: &Server) -> Response<Body> {
    let state = Some(cri::ContainerStateValue { state: cri::ContainerState::ContainerRunning.into() });
    let filter = cri::ContainerFilter { state, ..cri::ContainerFilter::default() };
    let containers = match server.view.runtime().list_containers(Some(filter)).await {
        Ok(containers) => containers,
        Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    let mut pods = std::collections::BTreeMap::<String, Value>::new();
    for container in containers {
        let label = |key: &str| container.labels.get(key).cloned().unwrap_or_default();
        let uid = label("io.kubernetes.pod.uid");
        if uid.is_empty() {
            continue;
        }
        let pod = pods.entry(uid.clone()).or_insert_with(|| {
            json!({
                "metadata": {
                    "name": label("io.kubernetes.pod.name"),
                    "namespace": label("io.kubernetes.pod.namespace"),
                    "uid": uid,
                },
                "spec": {"containers": []},
                "status": {},
            })
        });
        if let Some(list) = pod["spec"]["containers"].as_array_mut() {
            list.push(json!({"name": label("io.kubernetes.container.name"), "image": container.image_id, "resources": {}}));
        }
    }
    let items: Vec<Value> = pods.into_values().collect();
    json_answer(&json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
}

/// The pod a path names, its UID checked.
pub(super) fn find_pod(server: &Server, target: &Target) -> Result<PodRef, Response<Body>> {
    let pod = server.view.pod(&target.namespace, &target.pod);
    let pod = pod.filter(|p| target.uid.is_none() || p.metadata.uid == target.uid);
    pod.ok_or_else(|| {
        let full = format!("{}_{}", target.pod, target.namespace);
        text(StatusCode::NOT_FOUND, &format!("pod does not exist: {full}"))
    })
}

/// The running container a path names.
fn find_container(server: &Server, target: &Target) -> Result<RuntimeContainer, Response<Body>> {
    let pod = find_pod(server, target)?;
    let runtime = server.view.runtime_pod(pod.metadata.uid.as_deref().unwrap_or_default());
    let found =
        runtime.as_ref().and_then(|p| p.container(&target.container)).filter(|c| c.is_running()).cloned();
    found.ok_or_else(|| {
        let name = &target.container;
        text(StatusCode::NOT_FOUND, &format!("container not found (\"{name}\")"))
    })
}

/// Which streams a client wants; the API server and older clients name them differently.
struct Streams {
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl Streams {
    fn of(query: &Query) -> Result<Self, Response<Body>> {
        let tty = query.flag(&["tty"]);
        let streams = Self {
            stdin: query.flag(&["input", "stdin"]),
            stdout: query.flag(&["output", "stdout"]),
            // A terminal has one stream out.
            stderr: query.flag(&["error", "stderr"]) && !tty,
            tty,
        };
        if streams.stdin || streams.stdout || streams.stderr {
            return Ok(streams);
        }
        Err(text(StatusCode::BAD_REQUEST, "you must specify at least 1 of stdin, stdout, stderr"))
    }
}

async fn exec(server: &Arc<Server>, target: &Target, request: Request<Incoming>) -> Response<Body> {
    let query = Query::parse(request.uri().query());
    let (container, streams) = match (find_container(server, target), Streams::of(&query)) {
        (Ok(container), Ok(streams)) => (container, streams),
        (Err(refusal), _) | (_, Err(refusal)) => return refusal,
    };
    let wanted = cri::ExecRequest {
        container_id: container.id,
        cmd: query.all("command"),
        tty: streams.tty,
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr: streams.stderr,
    };
    match server.view.runtime().exec(wanted).await {
        Ok(url) => stream::tunnel(request, &url).await,
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn attach(server: &Arc<Server>, target: &Target, request: Request<Incoming>) -> Response<Body> {
    let query = Query::parse(request.uri().query());
    let (container, streams) = match (find_container(server, target), Streams::of(&query)) {
        (Ok(container), Ok(streams)) => (container, streams),
        (Err(refusal), _) | (_, Err(refusal)) => return refusal,
    };
    let wanted = cri::AttachRequest {
        container_id: container.id,
        stdin: streams.stdin,
        tty: streams.tty,
        stdout: streams.stdout,
        stderr: streams.stderr,
    };
    match server.view.runtime().attach(wanted).await {
        Ok(url) => stream::tunnel(request, &url).await,
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn port_forward(server: &Arc<Server>, target: &Target, request: Request<Incoming>) -> Response<Body> {
    let pod = match find_pod(server, target) {
        Ok(pod) => pod,
        Err(refusal) => return refusal,
    };
    let runtime = server.view.runtime_pod(pod.metadata.uid.as_deref().unwrap_or_default());
    let Some(sandbox) = runtime.as_ref().and_then(|p| p.ready_sandbox()) else {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "the pod's sandbox is not ready");
    };
    let ports = Query::parse(request.uri().query()).all("port");
    let port = ports.iter().flat_map(|p| p.split(',')).filter_map(|p| p.parse().ok()).collect();
    let wanted = cri::PortForwardRequest { pod_sandbox_id: sandbox.id.clone(), port };
    match server.view.runtime().port_forward(wanted).await {
        Ok(url) => stream::tunnel(request, &url).await,
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// `POST /run/…?cmd=…`: a command to its end, output in the body.
async fn run(server: &Server, target: &Target, request: &Request<Incoming>) -> Response<Body> {
    const LIMIT: Duration = Duration::from_secs(120);
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    }
    let container = match find_container(server, target) {
        Ok(container) => container,
        Err(refusal) => return refusal,
    };
    let query = Query::parse(request.uri().query());
    let command = query.first("cmd").unwrap_or_default().split(' ').map(str::to_owned).collect();
    match server.view.runtime().exec_sync(&container.id, command, LIMIT).await {
        Ok(done) => {
            body::answer(StatusCode::OK, "text/plain", body::full([done.stdout, done.stderr].concat()))
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn checkpoint(server: &Server, target: &Target, method: &Method) -> Response<Body> {
    if method != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    }
    let container = match find_container(server, target) {
        Ok(container) => container,
        Err(refusal) => return refusal,
    };
    let dir = server.config.root_dir.join("checkpoints");
    if let Err(error) = std::fs::create_dir_all(&dir) {
        return text(StatusCode::INTERNAL_SERVER_ERROR, &format!("create {}: {error}", dir.display()));
    }
    let now = copepod_sys::clock::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    let name = format!("checkpoint-{}_{}-{}-{now}.tar", target.pod, target.namespace, target.container);
    let location = dir.join(name).display().to_string();
    let wanted = cri::CheckpointContainerRequest {
        container_id: container.id,
        location: location.clone(),
        timeout: 0,
    };
    match server.view.runtime().checkpoint_container(wanted).await {
        Ok(()) => json_answer(&json!({"items": [location]})),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("checkpointing of {} failed: {error}", target.pod),
        ),
    }
}

/// The settings that are the same as fields of upstream's `KubeletConfiguration`.
fn configz(server: &Server) -> Value {
    let config = &server.config;
    let seconds = |d: Duration| format!("{}s", d.as_secs());
    json!({"kubeletconfig": {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "staticPodPath": config.static_pod_path,
        "syncFrequency": seconds(config.sync_frequency),
        "nodeStatusUpdateFrequency": seconds(config.node_status_update_frequency),
        "nodeStatusReportFrequency": seconds(config.node_status_report_frequency),
        "nodeLeaseDurationSeconds": config.node_lease_duration.as_secs(),
        "clusterDomain": config.cluster_domain,
        "clusterDNS": config.cluster_dns,
        "maxPods": config.max_pods,
        "containerRuntimeEndpoint": config.runtime_endpoint,
        "containerLogMaxSize": config.container_log_max_size.to_string(),
        "containerLogMaxFiles": config.container_log_max_files,
        "imageGCHighThresholdPercent": config.image_gc_high_percent,
        "imageGCLowThresholdPercent": config.image_gc_low_percent,
        "evictionHard": config.eviction_hard,
        "kubeReserved": config.kube_reserved,
        "systemReserved": config.system_reserved,
        "allowedUnsafeSysctls": config.allowed_unsafe_sysctls,
    }})
}
