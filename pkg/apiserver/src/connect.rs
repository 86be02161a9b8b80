//! Connections through the server: logs, exec, attach and port-forward by way of the kubelet; proxies to pods,
//! services and nodes.
//!
//! An upgraded connection (WebSocket or SPDY) is a tunnel: once both sides have switched protocols, bytes are copied
//! both ways and nothing here looks at them.

use std::sync::Arc;

use copepod_api::{ApiError, ApiResult, GroupResource, GroupVersionResource};
use copepod_registry::{Attributes, Operation};
use futures::StreamExt as _;
use http::request::Parts;
use http::{Method, Response, StatusCode, header};
use serde_json::json;

use crate::authz::Check;
use crate::body::Body;
use crate::request::RequestInfo;
use crate::respond;
use crate::server::{Call, Server};
use crate::socket;

mod endpoint;
mod forward;
mod links;
mod options;
mod pods;
mod spdy;

pub(crate) use forward::{Destination, Relay, forward, relay};

/// Whether a request is for a connection rather than an object.
pub(crate) fn serves(info: &RequestInfo) -> bool {
    info.group.is_empty()
        && matches!(
            (info.resource.as_str(), info.subresource.as_str()),
            ("pods", "log" | "exec" | "attach" | "portforward" | "proxy") | ("services" | "nodes", "proxy")
        )
}

impl Server {
    /// Connects the client to what the path names.
    pub(crate) async fn connect(self: Arc<Self>, call: Call) -> ApiResult<Response<Body>> {
        let method = call.parts.method.clone();
        let read = matches!(method, Method::GET | Method::HEAD);
        let sub = call.info.subresource.as_str();
        let allowed = match sub {
            "log" => read,
            "exec" | "attach" | "portforward" => matches!(method, Method::GET | Method::POST),
            _ => true,
        };
        if !allowed {
            return Err(crate::handlers::not_allowed());
        }
        if sub == "proxy" && read && !call.parts.uri.path().contains("/proxy/") {
            return Ok(redirect_to_slash(&call));
        }
        self.admit_connect(&call).await?;
        if matches!(sub, "exec" | "attach" | "portforward") {
            self.require_create(&call).await?;
        }
        let destination = match (call.info.resource.as_str(), sub) {
            ("pods", "log") => match self.log_destination(&call).await? {
                Some(destination) => destination,
                // A pod without a node has no log yet.
                None => return Ok(log_answer(&call.parts, nothing())),
            },
            ("pods", "exec" | "attach" | "portforward") => self.stream_destination(&call).await?,
            ("pods", _) => self.pod_destination(&call).await?,
            ("services", _) => self.service_destination(&call).await?,
            _ => self.node_destination(&call).await?,
        };
        let (is_log, is_forward) = (sub == "log", sub == "portforward");
        let Call { parts, mut body, .. } = call;
        if is_forward && spdy::wanted(&parts.headers) {
            return spdy::serve(&self.kubelets, destination, &parts).await;
        }
        if is_log && socket::wanted(&parts.headers) {
            let answer = forward(&self.kubelets, destination, without_upgrade(&parts), None).await?;
            return Ok(log_answer(&parts, answer));
        }
        forward(&self.kubelets, destination, parts, body.take()).await
    }

    /// A WebSocket begins with GET, which asks for no more than to read: a stream into a pod takes what POST takes.
    async fn require_create(&self, call: &Call) -> ApiResult<()> {
        const VERB: &str = "create";
        if call.info.verb == VERB {
            return Ok(());
        }
        let decision = self.authz.decide(&Check { verb: VERB, ..call.check() }).await;
        if decision.allowed {
            return Ok(());
        }
        let resource = GroupResource::new("", &call.info.resource);
        Err(ApiError::forbidden(&resource, &call.info.name, &decision.reason))
    }

    async fn admit_connect(&self, call: &Call) -> ApiResult<()> {
        if matches!(call.info.subresource.as_str(), "log") {
            return Ok(());
        }
        let info = &call.info;
        let resource = GroupVersionResource::new("", "v1", &info.resource);
        let kind = copepod_api::GroupVersionKind::new("", "v1", options::kind(info));
        let mut options = options::object(info, &call.query);
        let attributes = Attributes {
            operation: Operation::Connect,
            kind: &kind,
            resource: &resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
            old: None,
            user: &call.user,
            dry_run: false,
            options: &json!({}),
            warnings: &call.warnings,
            reinvocation: None,
        };
        self.admission.mutate(&attributes, &mut options).await?;
        self.admission.validate(&attributes, Some(&options)).await
    }
}

/// The request as one that keeps its protocol: the agent knows logs over HTTP only.
fn without_upgrade(parts: &Parts) -> Parts {
    let mut plain = parts.clone();
    plain.headers.remove(header::CONNECTION);
    plain.headers.remove(header::UPGRADE);
    plain
}

/// A log over a WebSocket, when the client asks for one and there is a log.
fn log_answer(parts: &Parts, answer: Response<Body>) -> Response<Body> {
    if !socket::wanted(&parts.headers) || answer.status() != StatusCode::OK {
        return answer;
    }
    let frames = http_body_util::BodyStream::new(answer.into_body());
    let chunks =
        frames.filter_map(|frame| std::future::ready(frame.map(|frame| frame.into_data().ok()).transpose()));
    socket::serve_bytes(parts, chunks)
}

fn redirect_to_slash(call: &Call) -> Response<Body> {
    let mut location = format!("{}/", call.parts.uri.path());
    if let Some(query) = call.parts.uri.query() {
        location = format!("{location}?{query}");
    }
    let mut response = respond::text(301, "");
    if let Ok(value) = http::HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, value);
    }
    response
}

/// No content, and no type of it.
fn nothing() -> Response<Body> {
    let mut response = respond::with_type(204, respond::TEXT, bytes::Bytes::new());
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}
