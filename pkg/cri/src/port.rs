//! The two ports. Each method takes and returns the message of the same RPC.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures::Stream;

use crate::error::CriError;
use crate::v1::*;

/// The future of one call.
pub type CriFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, CriError>> + Send + 'a>>;

/// Container events as the runtime streams them; ends when the runtime goes away.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<ContainerEventResponse, CriError>> + Send>>;

/// Sandboxes and containers.
pub trait RuntimeService: Send + Sync + 'static {
    /// Name and version of the runtime.
    fn version(&self) -> CriFuture<'_, VersionResponse>;
    /// Runtime and network readiness.
    fn status(&self, verbose: bool) -> CriFuture<'_, StatusResponse>;
    /// Creates and starts a pod sandbox, network included.
    fn run_pod_sandbox(&self, config: PodSandboxConfig, runtime_handler: String) -> CriFuture<'_, String>;
    /// Stops everything in the sandbox and frees its network. Idempotent.
    fn stop_pod_sandbox(&self, id: &str) -> CriFuture<'_, ()>;
    /// Removes a sandbox and its containers. Idempotent.
    fn remove_pod_sandbox(&self, id: &str) -> CriFuture<'_, ()>;
    /// One sandbox.
    fn pod_sandbox_status(&self, id: &str) -> CriFuture<'_, PodSandboxStatus>;
    /// Sandboxes that match `filter`.
    fn list_pod_sandboxes(&self, filter: Option<PodSandboxFilter>) -> CriFuture<'_, Vec<PodSandbox>>;
    /// Creates a container in a sandbox; returns its id.
    fn create_container(
        &self,
        sandbox_id: &str,
        config: ContainerConfig,
        sandbox_config: PodSandboxConfig,
    ) -> CriFuture<'_, String>;
    /// Starts a created container.
    fn start_container(&self, id: &str) -> CriFuture<'_, ()>;
    /// Stops a container; it is killed after `grace`. Idempotent.
    fn stop_container(&self, id: &str, grace: Duration) -> CriFuture<'_, ()>;
    /// Removes a stopped container. Idempotent.
    fn remove_container(&self, id: &str) -> CriFuture<'_, ()>;
    /// Containers that match `filter`.
    fn list_containers(&self, filter: Option<ContainerFilter>) -> CriFuture<'_, Vec<Container>>;
    /// One container.
    fn container_status(&self, id: &str) -> CriFuture<'_, ContainerStatus>;
    /// Changes the cgroup limits of a running container.
    fn update_container_resources(&self, request: UpdateContainerResourcesRequest) -> CriFuture<'_, ()>;
    /// Tells the runtime to reopen a container's log after rotation.
    fn reopen_container_log(&self, id: &str) -> CriFuture<'_, ()>;
    /// Runs a command to its end; zero `timeout` waits for ever.
    fn exec_sync(&self, id: &str, cmd: Vec<String>, timeout: Duration) -> CriFuture<'_, ExecSyncResponse>;
    /// Prepares a streaming exec; returns the URL.
    fn exec(&self, request: ExecRequest) -> CriFuture<'_, String>;
    /// Prepares a streaming attach; returns the URL.
    fn attach(&self, request: AttachRequest) -> CriFuture<'_, String>;
    /// Prepares a port-forward; returns the URL.
    fn port_forward(&self, request: PortForwardRequest) -> CriFuture<'_, String>;
    /// Usage of containers that match `filter`.
    fn list_container_stats(
        &self,
        filter: Option<ContainerStatsFilter>,
    ) -> CriFuture<'_, Vec<ContainerStats>>;
    /// Usage of sandboxes that match `filter`.
    fn list_pod_sandbox_stats(
        &self,
        filter: Option<PodSandboxStatsFilter>,
    ) -> CriFuture<'_, Vec<PodSandboxStats>>;
    /// Tells the runtime the node's pod range.
    fn update_runtime_config(&self, pod_cidr: String) -> CriFuture<'_, ()>;
    /// The runtime's own configuration (its cgroup driver).
    fn runtime_config(&self) -> CriFuture<'_, RuntimeConfigResponse>;
    /// Writes a checkpoint of a container to `location`.
    fn checkpoint_container(&self, request: CheckpointContainerRequest) -> CriFuture<'_, ()>;
    /// The stream of container events.
    fn container_events(&self) -> CriFuture<'_, EventStream>;
}

/// Images.
pub trait ImageService: Send + Sync + 'static {
    /// Images that match `filter`.
    fn list_images(&self, filter: Option<ImageFilter>) -> CriFuture<'_, Vec<Image>>;
    /// One image; `image` is `None` inside when it is absent.
    fn image_status(&self, image: ImageSpec, verbose: bool) -> CriFuture<'_, ImageStatusResponse>;
    /// Pulls an image; returns its reference.
    fn pull_image(&self, request: PullImageRequest) -> CriFuture<'_, String>;
    /// Removes an image. Idempotent.
    fn remove_image(&self, image: ImageSpec) -> CriFuture<'_, ()>;
    /// Usage of the image filesystem.
    fn image_fs_info(&self) -> CriFuture<'_, ImageFsInfoResponse>;
}
