//! An in-memory runtime for tests: enough of CRI that the kubelet's loops run unchanged.
//!
//! Containers run until [`FakeRuntime::exit`] or a stop; nothing is executed. [`FakeRuntime::fail_next`]
//! makes a call fail, [`FakeRuntime::calls`] tells what was asked in which order.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tonic::Code;

use crate::error::CriError;
use crate::port::{CriFuture, EventStream, ImageService, RuntimeService};
use crate::v1::*;

#[derive(Debug, Default)]
struct State {
    sandboxes: BTreeMap<String, PodSandboxStatus>,
    containers: BTreeMap<String, (String, ContainerStatus)>,
    images: BTreeMap<String, Image>,
    failures: VecDeque<(&'static str, CriError)>,
    calls: Vec<String>,
    clock: i64,
}

impl State {
    /// Moves the clock on: real time, never twice the same.
    fn tick(&mut self) {
        let now = i64::try_from(copepod_sys::clock::now().as_nanosecond()).unwrap_or(i64::MAX);
        self.clock = now.max(self.clock + 1);
    }
}

/// The fake.
#[derive(Debug)]
pub struct FakeRuntime {
    state: Mutex<State>,
    events: broadcast::Sender<ContainerEventResponse>,
}

impl Default for FakeRuntime {
    fn default() -> Self {
        Self { state: Mutex::default(), events: broadcast::channel(256).0 }
    }
}

impl FakeRuntime {
    /// Adds an image that needs no pull.
    pub fn add_image(&self, name: &str) {
        let image =
            Image { id: format!("sha256:{name}"), repo_tags: vec![name.to_owned()], ..Image::default() };
        self.state.lock().images.insert(name.to_owned(), image);
    }

    /// Makes the next call of `method` fail.
    pub fn fail_next(&self, method: &'static str, code: Code, message: &str) {
        let error = CriError::Rpc { code, message: message.to_owned() };
        self.state.lock().failures.push_back((method, error));
    }

    /// What was called so far, as `method name`.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.state.lock().calls.clone()
    }

    /// Ends the running container called `name`.
    pub fn exit(&self, name: &str, code: i32) {
        let mut state = self.state.lock();
        state.tick();
        let now = state.clock;
        let found = state.containers.values_mut().map(|(_, c)| c).find(|c| {
            c.metadata.as_ref().is_some_and(|m| m.name == name)
                && c.state() == ContainerState::ContainerRunning
        });
        let Some(container) = found else { return };
        finish(container, code, now);
        let id = container.id.clone();
        drop(state);
        self.tell(&id, ContainerEventType::ContainerStoppedEvent);
    }

    /// Notes a call; fails when it was told to.
    fn enter(&self, method: &'static str, what: &str) -> Result<(), CriError> {
        let mut state = self.state.lock();
        state.tick();
        state.calls.push(format!("{method} {what}").trim_end().to_owned());
        match state.failures.iter().position(|(m, _)| *m == method) {
            Some(at) => Err(state.failures.remove(at).map(|f| f.1).unwrap_or_else(|| missing(method))),
            None => Ok(()),
        }
    }

    fn tell(&self, id: &str, kind: ContainerEventType) {
        let state = self.state.lock();
        let sandbox = state.containers.get(id).map_or(id, |(sandbox, _)| sandbox);
        let event = ContainerEventResponse {
            container_id: id.to_owned(),
            container_event_type: kind.into(),
            created_at: state.clock,
            pod_sandbox_status: state.sandboxes.get(sandbox).cloned(),
            containers_statuses: Vec::new(),
        };
        // Nobody listening is fine.
        drop(self.events.send(event));
    }

    fn set_container(
        &self,
        id: &str,
        change: impl FnOnce(&mut ContainerStatus, i64),
    ) -> Result<(), CriError> {
        let mut state = self.state.lock();
        let now = state.clock;
        let (_, container) = state.containers.get_mut(id).ok_or_else(|| missing(id))?;
        change(container, now);
        Ok(())
    }
}

fn missing(what: &str) -> CriError {
    CriError::Rpc { code: Code::NotFound, message: format!("{what}: not found") }
}

fn unsupported<'a, T>(method: &str) -> CriFuture<'a, T> {
    let message = format!("the fake runtime does not know {method}");
    Box::pin(async move { Err(CriError::Rpc { code: Code::Unimplemented, message }) })
}

fn ready<'a, T: Send + 'a>(result: Result<T, CriError>) -> CriFuture<'a, T> {
    Box::pin(std::future::ready(result))
}

fn finish(container: &mut ContainerStatus, code: i32, now: i64) {
    container.set_state(ContainerState::ContainerExited);
    container.exit_code = code;
    container.finished_at = now;
    container.reason = if code == 0 { "Completed" } else { "Error" }.to_owned();
}

fn selected(
    labels: &std::collections::HashMap<String, String>,
    wanted: &std::collections::HashMap<String, String>,
) -> bool {
    wanted.iter().all(|(k, v)| labels.get(k) == Some(v))
}

impl RuntimeService for FakeRuntime {
    fn version(&self) -> CriFuture<'_, VersionResponse> {
        ready(self.enter("version", "").map(|()| VersionResponse {
            runtime_name: "containerd".to_owned(),
            runtime_version: "v2.0.0".to_owned(),
            ..VersionResponse::default()
        }))
    }

    fn status(&self, _verbose: bool) -> CriFuture<'_, StatusResponse> {
        let condition =
            |kind: &str| RuntimeCondition { r#type: kind.to_owned(), status: true, ..Default::default() };
        let status = RuntimeStatus { conditions: vec![condition("RuntimeReady"), condition("NetworkReady")] };
        ready(
            self.enter("status", "").map(|()| StatusResponse { status: Some(status), ..Default::default() }),
        )
    }

    fn run_pod_sandbox(&self, config: PodSandboxConfig, runtime_handler: String) -> CriFuture<'_, String> {
        let meta = config.metadata.clone().unwrap_or_default();
        if let Err(error) = self.enter("run_pod_sandbox", &meta.name) {
            return ready(Err(error));
        }
        let options = config.linux.and_then(|l| l.security_context).and_then(|s| s.namespace_options);
        let mut state = self.state.lock();
        let id = format!("sandbox-{}", state.clock);
        let status = PodSandboxStatus {
            id: id.clone(),
            metadata: Some(meta),
            created_at: state.clock,
            network: Some(PodSandboxNetworkStatus { ip: "10.244.0.2".to_owned(), ..Default::default() }),
            linux: Some(LinuxPodSandboxStatus { namespaces: Some(Namespace { options }) }),
            labels: config.labels,
            annotations: config.annotations,
            runtime_handler,
            ..PodSandboxStatus::default()
        };
        state.sandboxes.insert(id.clone(), status);
        drop(state);
        self.tell(&id, ContainerEventType::ContainerStartedEvent);
        ready(Ok(id))
    }

    fn stop_pod_sandbox(&self, id: &str) -> CriFuture<'_, ()> {
        let result = self.enter("stop_pod_sandbox", "").map(|()| {
            if let Some(sandbox) = self.state.lock().sandboxes.get_mut(id) {
                sandbox.set_state(PodSandboxState::SandboxNotready);
            }
        });
        ready(result)
    }

    fn remove_pod_sandbox(&self, id: &str) -> CriFuture<'_, ()> {
        let result = self.enter("remove_pod_sandbox", "").map(|()| {
            self.state.lock().sandboxes.remove(id);
        });
        ready(result)
    }

    fn pod_sandbox_status(&self, id: &str) -> CriFuture<'_, PodSandboxStatus> {
        ready(self.state.lock().sandboxes.get(id).cloned().ok_or_else(|| missing(id)))
    }

    fn list_pod_sandboxes(&self, filter: Option<PodSandboxFilter>) -> CriFuture<'_, Vec<PodSandbox>> {
        let wanted = filter.unwrap_or_default().label_selector;
        let state = self.state.lock();
        let found = state.sandboxes.values().filter(|s| selected(&s.labels, &wanted)).map(|s| PodSandbox {
            id: s.id.clone(),
            metadata: s.metadata.clone(),
            state: s.state,
            created_at: s.created_at,
            labels: s.labels.clone(),
            annotations: s.annotations.clone(),
            runtime_handler: s.runtime_handler.clone(),
        });
        ready(Ok(found.collect()))
    }

    fn create_container(
        &self,
        sandbox_id: &str,
        config: ContainerConfig,
        _sandbox_config: PodSandboxConfig,
    ) -> CriFuture<'_, String> {
        let meta = config.metadata.clone().unwrap_or_default();
        if let Err(error) = self.enter("create_container", &meta.name) {
            return ready(Err(error));
        }
        let mut state = self.state.lock();
        let id = format!("container-{}", state.clock);
        let status = ContainerStatus {
            id: id.clone(),
            metadata: Some(meta),
            created_at: state.clock,
            image_ref: config.image.as_ref().map(|i| i.image.clone()).unwrap_or_default(),
            image: config.image,
            labels: config.labels,
            annotations: config.annotations,
            mounts: config.mounts,
            ..ContainerStatus::default()
        };
        state.containers.insert(id.clone(), (sandbox_id.to_owned(), status));
        drop(state);
        self.tell(&id, ContainerEventType::ContainerCreatedEvent);
        ready(Ok(id))
    }

    fn start_container(&self, id: &str) -> CriFuture<'_, ()> {
        let result = self.enter("start_container", "").and_then(|()| {
            self.set_container(id, |container, now| {
                container.set_state(ContainerState::ContainerRunning);
                container.started_at = now;
            })
        });
        self.tell(id, ContainerEventType::ContainerStartedEvent);
        ready(result)
    }

    fn stop_container(&self, id: &str, _grace: Duration) -> CriFuture<'_, ()> {
        let result = self.enter("stop_container", "").and_then(|()| {
            self.set_container(id, |container, now| {
                if container.state() == ContainerState::ContainerRunning {
                    finish(container, 143, now);
                }
            })
        });
        self.tell(id, ContainerEventType::ContainerStoppedEvent);
        ready(result)
    }

    fn remove_container(&self, id: &str) -> CriFuture<'_, ()> {
        let result = self.enter("remove_container", "").map(|()| {
            self.state.lock().containers.remove(id);
        });
        ready(result)
    }

    fn list_containers(&self, filter: Option<ContainerFilter>) -> CriFuture<'_, Vec<Container>> {
        let wanted = filter.unwrap_or_default().label_selector;
        let state = self.state.lock();
        let found = state.containers.values().filter(|(_, c)| selected(&c.labels, &wanted));
        let found = found.map(|(sandbox, c)| Container {
            id: c.id.clone(),
            pod_sandbox_id: sandbox.clone(),
            metadata: c.metadata.clone(),
            image: c.image.clone(),
            image_ref: c.image_ref.clone(),
            state: c.state,
            created_at: c.created_at,
            labels: c.labels.clone(),
            annotations: c.annotations.clone(),
            image_id: c.image_id.clone(),
        });
        ready(Ok(found.collect()))
    }

    fn container_status(&self, id: &str) -> CriFuture<'_, ContainerStatus> {
        ready(self.state.lock().containers.get(id).map(|(_, c)| c.clone()).ok_or_else(|| missing(id)))
    }

    fn update_container_resources(&self, _request: UpdateContainerResourcesRequest) -> CriFuture<'_, ()> {
        ready(self.enter("update_container_resources", ""))
    }

    fn reopen_container_log(&self, _id: &str) -> CriFuture<'_, ()> {
        ready(self.enter("reopen_container_log", ""))
    }

    fn exec_sync(&self, _id: &str, cmd: Vec<String>, _timeout: Duration) -> CriFuture<'_, ExecSyncResponse> {
        ready(self.enter("exec_sync", &cmd.join(" ")).map(|()| ExecSyncResponse::default()))
    }

    fn exec(&self, _request: ExecRequest) -> CriFuture<'_, String> {
        unsupported("Exec")
    }

    fn attach(&self, _request: AttachRequest) -> CriFuture<'_, String> {
        unsupported("Attach")
    }

    fn port_forward(&self, _request: PortForwardRequest) -> CriFuture<'_, String> {
        unsupported("PortForward")
    }

    fn list_container_stats(
        &self,
        _filter: Option<ContainerStatsFilter>,
    ) -> CriFuture<'_, Vec<ContainerStats>> {
        ready(Ok(Vec::new()))
    }

    fn list_pod_sandbox_stats(
        &self,
        _filter: Option<PodSandboxStatsFilter>,
    ) -> CriFuture<'_, Vec<PodSandboxStats>> {
        ready(Ok(Vec::new()))
    }

    fn update_runtime_config(&self, _pod_cidr: String) -> CriFuture<'_, ()> {
        ready(Ok(()))
    }

    fn runtime_config(&self) -> CriFuture<'_, RuntimeConfigResponse> {
        ready(Ok(RuntimeConfigResponse::default()))
    }

    fn checkpoint_container(&self, _request: CheckpointContainerRequest) -> CriFuture<'_, ()> {
        unsupported("CheckpointContainer")
    }

    fn container_events(&self) -> CriFuture<'_, EventStream> {
        let stream = tokio_stream::wrappers::BroadcastStream::new(self.events.subscribe());
        // A listener that fell behind only misses wake-ups of pods it will look at anyway.
        let stream = stream.filter_map(|event| std::future::ready(event.ok().map(Ok)));
        ready(Ok(stream.boxed() as EventStream))
    }
}

impl ImageService for FakeRuntime {
    fn list_images(&self, _filter: Option<ImageFilter>) -> CriFuture<'_, Vec<Image>> {
        ready(Ok(self.state.lock().images.values().cloned().collect()))
    }

    fn image_status(&self, image: ImageSpec, _verbose: bool) -> CriFuture<'_, ImageStatusResponse> {
        let state = self.state.lock();
        let found = state.images.values().find(|i| i.id == image.image || i.repo_tags.contains(&image.image));
        ready(Ok(ImageStatusResponse { image: found.cloned(), ..Default::default() }))
    }

    fn pull_image(&self, request: PullImageRequest) -> CriFuture<'_, String> {
        let name = request.image.unwrap_or_default().image;
        let result = self.enter("pull_image", &name).map(|()| {
            self.add_image(&name);
            format!("sha256:{name}")
        });
        ready(result)
    }

    fn remove_image(&self, image: ImageSpec) -> CriFuture<'_, ()> {
        let result = self.enter("remove_image", &image.image).map(|()| {
            self.state.lock().images.retain(|name, i| *name != image.image && i.id != image.image);
        });
        ready(result)
    }

    fn image_fs_info(&self) -> CriFuture<'_, ImageFsInfoResponse> {
        ready(Ok(ImageFsInfoResponse::default()))
    }
}
