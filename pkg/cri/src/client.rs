//! CRI over gRPC on a unix socket.

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::error::CriError;
use crate::port::{CriFuture, EventStream, ImageService, RuntimeService};
use crate::v1::image_service_client::ImageServiceClient;
use crate::v1::runtime_service_client::RuntimeServiceClient;
use crate::v1::*;

/// Messages up to this size are accepted, as upstream's client does.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// A client of one runtime endpoint. Cheap to clone; connects on first use and again after the
/// runtime restarts.
#[derive(Debug, Clone)]
pub struct CriClient {
    runtime: RuntimeServiceClient<Channel>,
    image: ImageServiceClient<Channel>,
    timeout: Duration,
}

impl CriClient {
    /// A client of `endpoint` (`unix:///run/containerd/containerd.sock`, or a bare path); `timeout`
    /// bounds each ordinary call (upstream's `runtimeRequestTimeout`). Nothing is dialled yet.
    ///
    /// # Errors
    /// When the endpoint is no unix socket.
    pub fn new(endpoint: &str, timeout: Duration) -> Result<Self, CriError> {
        let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        if !path.starts_with('/') {
            return Err(CriError::Endpoint(endpoint.to_owned()));
        }
        let channel = channel(PathBuf::from(path));
        let runtime = RuntimeServiceClient::new(channel.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let image = ImageServiceClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        Ok(Self { runtime, image, timeout })
    }

    /// `message` as a request with the ordinary deadline plus `extra`.
    fn request<T>(&self, message: T, extra: Duration) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.set_timeout(self.timeout.saturating_add(extra));
        request
    }
}

fn channel(path: PathBuf) -> Channel {
    // The authority is never used on a unix socket, but HTTP/2 wants one.
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    }))
}

/// One unary call: clones the client (a handle), sends, and maps the answer.
macro_rules! call {
    ($self:ident, $service:ident . $method:ident, $message:expr) => {
        call!($self, $service.$method, $message, Duration::ZERO, |_r| ())
    };
    ($self:ident, $service:ident . $method:ident, $message:expr, $map:expr) => {
        call!($self, $service.$method, $message, Duration::ZERO, $map)
    };
    ($self:ident, $service:ident . $method:ident, $message:expr, $extra:expr, $map:expr) => {{
        let request = $self.request($message, $extra);
        let mut client = $self.$service.clone();
        Box::pin(async move {
            let response = client.$method(request).await?.into_inner();
            Ok(($map)(response))
        })
    }};
}

/// The object a status call must carry.
fn present<T>(value: Option<T>, what: &str) -> Result<T, CriError> {
    value.ok_or_else(|| CriError::Rpc {
        code: tonic::Code::Internal,
        message: format!("{what} is empty in the answer"),
    })
}

impl RuntimeService for CriClient {
    fn version(&self) -> CriFuture<'_, VersionResponse> {
        call!(self, runtime.version, VersionRequest { version: "0.1.0".to_owned() }, |r| r)
    }

    fn status(&self, verbose: bool) -> CriFuture<'_, StatusResponse> {
        call!(self, runtime.status, StatusRequest { verbose }, |r| r)
    }

    fn run_pod_sandbox(&self, config: PodSandboxConfig, runtime_handler: String) -> CriFuture<'_, String> {
        // Twice the ordinary deadline, as upstream: the network plugin runs inside this call.
        let message = RunPodSandboxRequest { config: Some(config), runtime_handler };
        call!(self, runtime.run_pod_sandbox, message, self.timeout, |r: RunPodSandboxResponse| r
            .pod_sandbox_id)
    }

    fn stop_pod_sandbox(&self, id: &str) -> CriFuture<'_, ()> {
        call!(self, runtime.stop_pod_sandbox, StopPodSandboxRequest { pod_sandbox_id: id.to_owned() })
    }

    fn remove_pod_sandbox(&self, id: &str) -> CriFuture<'_, ()> {
        call!(self, runtime.remove_pod_sandbox, RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() })
    }

    fn pod_sandbox_status(&self, id: &str) -> CriFuture<'_, PodSandboxStatus> {
        let request = self.request(
            PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false },
            Duration::ZERO,
        );
        let mut client = self.runtime.clone();
        Box::pin(async move {
            present(client.pod_sandbox_status(request).await?.into_inner().status, "sandbox status")
        })
    }

    fn list_pod_sandboxes(&self, filter: Option<PodSandboxFilter>) -> CriFuture<'_, Vec<PodSandbox>> {
        call!(
            self,
            runtime.list_pod_sandbox,
            ListPodSandboxRequest { filter },
            |r: ListPodSandboxResponse| r.items
        )
    }

    fn create_container(
        &self,
        sandbox_id: &str,
        config: ContainerConfig,
        sandbox_config: PodSandboxConfig,
    ) -> CriFuture<'_, String> {
        let message = CreateContainerRequest {
            pod_sandbox_id: sandbox_id.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        call!(self, runtime.create_container, message, |r: CreateContainerResponse| r.container_id)
    }

    fn start_container(&self, id: &str) -> CriFuture<'_, ()> {
        call!(self, runtime.start_container, StartContainerRequest { container_id: id.to_owned() })
    }

    fn stop_container(&self, id: &str, grace: Duration) -> CriFuture<'_, ()> {
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let message = StopContainerRequest { container_id: id.to_owned(), timeout };
        call!(self, runtime.stop_container, message, grace, |_r| ())
    }

    fn remove_container(&self, id: &str) -> CriFuture<'_, ()> {
        call!(self, runtime.remove_container, RemoveContainerRequest { container_id: id.to_owned() })
    }

    fn list_containers(&self, filter: Option<ContainerFilter>) -> CriFuture<'_, Vec<Container>> {
        call!(self, runtime.list_containers, ListContainersRequest { filter }, |r: ListContainersResponse| r
            .containers)
    }

    fn container_status(&self, id: &str) -> CriFuture<'_, ContainerStatus> {
        let request = self
            .request(ContainerStatusRequest { container_id: id.to_owned(), verbose: false }, Duration::ZERO);
        let mut client = self.runtime.clone();
        Box::pin(async move {
            present(client.container_status(request).await?.into_inner().status, "container status")
        })
    }

    fn update_container_resources(&self, request: UpdateContainerResourcesRequest) -> CriFuture<'_, ()> {
        call!(self, runtime.update_container_resources, request)
    }

    fn reopen_container_log(&self, id: &str) -> CriFuture<'_, ()> {
        call!(self, runtime.reopen_container_log, ReopenContainerLogRequest { container_id: id.to_owned() })
    }

    fn exec_sync(&self, id: &str, cmd: Vec<String>, timeout: Duration) -> CriFuture<'_, ExecSyncResponse> {
        let seconds = i64::try_from(timeout.as_millis().div_ceil(1000)).unwrap_or(i64::MAX);
        let message = ExecSyncRequest { container_id: id.to_owned(), cmd, timeout: seconds };
        let mut client = self.runtime.clone();
        // Without a timeout of its own an exec may run for ever, so neither may the call end it.
        let request =
            if timeout.is_zero() { tonic::Request::new(message) } else { self.request(message, timeout) };
        Box::pin(async move { Ok(client.exec_sync(request).await?.into_inner()) })
    }

    fn exec(&self, request: ExecRequest) -> CriFuture<'_, String> {
        call!(self, runtime.exec, request, |r: ExecResponse| r.url)
    }

    fn attach(&self, request: AttachRequest) -> CriFuture<'_, String> {
        call!(self, runtime.attach, request, |r: AttachResponse| r.url)
    }

    fn port_forward(&self, request: PortForwardRequest) -> CriFuture<'_, String> {
        call!(self, runtime.port_forward, request, |r: PortForwardResponse| r.url)
    }

    fn list_container_stats(
        &self,
        filter: Option<ContainerStatsFilter>,
    ) -> CriFuture<'_, Vec<ContainerStats>> {
        let message = ListContainerStatsRequest { filter };
        call!(self, runtime.list_container_stats, message, |r: ListContainerStatsResponse| r.stats)
    }

    fn list_pod_sandbox_stats(
        &self,
        filter: Option<PodSandboxStatsFilter>,
    ) -> CriFuture<'_, Vec<PodSandboxStats>> {
        let message = ListPodSandboxStatsRequest { filter };
        call!(self, runtime.list_pod_sandbox_stats, message, |r: ListPodSandboxStatsResponse| r.stats)
    }

    fn update_runtime_config(&self, pod_cidr: String) -> CriFuture<'_, ()> {
        let runtime_config = Some(RuntimeConfig { network_config: Some(NetworkConfig { pod_cidr }) });
        call!(self, runtime.update_runtime_config, UpdateRuntimeConfigRequest { runtime_config })
    }

    fn runtime_config(&self) -> CriFuture<'_, RuntimeConfigResponse> {
        call!(self, runtime.runtime_config, RuntimeConfigRequest {}, |r| r)
    }

    fn checkpoint_container(&self, request: CheckpointContainerRequest) -> CriFuture<'_, ()> {
        call!(self, runtime.checkpoint_container, request)
    }

    fn container_events(&self) -> CriFuture<'_, EventStream> {
        let mut client = self.runtime.clone();
        Box::pin(async move {
            let stream = client.get_container_events(GetEventsRequest {}).await?.into_inner();
            Ok(stream.map(|item| item.map_err(CriError::from)).boxed())
        })
    }
}

impl ImageService for CriClient {
    fn list_images(&self, filter: Option<ImageFilter>) -> CriFuture<'_, Vec<Image>> {
        call!(self, image.list_images, ListImagesRequest { filter }, |r: ListImagesResponse| r.images)
    }

    fn image_status(&self, image: ImageSpec, verbose: bool) -> CriFuture<'_, ImageStatusResponse> {
        call!(self, image.image_status, ImageStatusRequest { image: Some(image), verbose }, |r| r)
    }

    fn pull_image(&self, request: PullImageRequest) -> CriFuture<'_, String> {
        let mut client = self.image.clone();
        Box::pin(async move { Ok(client.pull_image(request).await?.into_inner().image_ref) })
    }

    fn remove_image(&self, image: ImageSpec) -> CriFuture<'_, ()> {
        call!(self, image.remove_image, RemoveImageRequest { image: Some(image) })
    }

    fn image_fs_info(&self) -> CriFuture<'_, ImageFsInfoResponse> {
        call!(self, image.image_fs_info, ImageFsInfoRequest {}, |r| r)
    }
}
