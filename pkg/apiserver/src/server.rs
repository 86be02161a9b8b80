//! One request's way: panic guard, identity, authorization, then the handler of its path.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use copepod_api::{ApiError, ApiResult, Reason};
use copepod_registry::{AdmissionChain, Registry, RequestContext, UserInfo, Warnings};
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use crate::aggregator::Aggregator;
use crate::authn::{Authenticator, impersonation};
use crate::authz::{Authorizer, Check};
use crate::body::Body;
use crate::config::Config;
use crate::discovery::Discovery;
use crate::kubelet::Kubelets;
use crate::metrics::Metrics;
use crate::negotiate;
use crate::openapi::OpenApi;
use crate::reader::Reader;
use crate::request::{Query, RequestBody, RequestInfo};
use crate::respond;
use crate::serve::{Handler, Peer};

/// The largest body (upstream's 3 MiB).
const MAX_BODY: usize = 3 * 1024 * 1024;
/// How much of a body that is too large is read and dropped.
const MAX_DRAINED: usize = 4 * MAX_BODY;
/// How long a request that is not long-running may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Everything that handlers use.
pub(crate) struct Server {
    pub config: Config,
    pub registry: Arc<Registry>,
    pub reader: Reader,
    pub authn: Authenticator,
    pub authz: Arc<Authorizer>,
    /// The address others reach this server at.
    pub advertised: std::net::IpAddr,
    /// The port it listens on.
    pub port: u16,
    pub admission: AdmissionChain,
    pub discovery: ArcSwap<Discovery>,
    /// Other API servers behind this one.
    pub aggregator: Arc<Aggregator>,
    pub openapi: OpenApi,
    pub kubelets: Kubelets,
    pub metrics: Metrics,
    pub health: crate::health::Health,
    pub shutdown: CancellationToken,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("config", &self.config).finish_non_exhaustive()
    }
}

/// One request after authentication.
#[derive(Debug)]
pub(crate) struct Call {
    /// What it asks for.
    pub info: RequestInfo,
    /// Its query.
    pub query: Query,
    /// Its head.
    pub parts: http::request::Parts,
    /// Its body, until it is read.
    pub body: RequestBody,
    /// Who sends it.
    pub user: UserInfo,
    /// Warnings for its answer.
    pub warnings: Warnings,
}

impl Call {
    /// A header's text; empty when absent.
    pub(crate) fn header(&self, name: impl header::AsHeaderName) -> &str {
        header_text(&self.parts.headers, name)
    }

    /// The namespace in the path.
    pub(crate) fn namespace(&self) -> Option<&str> {
        // A request about a Namespace itself names it as the place for authorization only; the object is in none.
        Some(self.info.namespace.as_str()).filter(|ns| !ns.is_empty() && self.info.resource != "namespaces")
    }

    /// Reads the body, at most 3 MiB of it. A larger one is read and dropped up to a bound, because an HTTP/2 stream
    /// that is reset while the client still sends loses its answer.
    pub(crate) async fn read_body(&mut self) -> ApiResult<Bytes> {
        let Some(mut body) = self.body.take() else { return Ok(Bytes::new()) };
        let mut chunks: Vec<Bytes> = Vec::new();
        let mut total = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| ApiError::bad_request(format!("unable to read the body: {e}")))?;
            let Ok(data) = frame.into_data() else { continue };
            total += data.len();
            if total > MAX_BODY {
                chunks.clear();
            } else {
                chunks.push(data);
            }
            if total > MAX_DRAINED {
                break;
            }
        }
        if total > MAX_BODY {
            let text = format!("Request entity too large: limit is {MAX_BODY}");
            return Err(ApiError::new(Reason::RequestEntityTooLarge, text));
        }
        Ok(match chunks.len() {
            1 => chunks.swap_remove(0),
            _ => chunks.concat().into(),
        })
    }

    /// The question for the authorizer.
    pub(crate) fn check(&self) -> Check<'_> {
        let info = &self.info;
        Check {
            user: &self.user,
            verb: &info.verb,
            group: &info.group,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
            path: &info.path,
            is_resource: info.is_resource,
            field_selector: self.query.text("fieldSelector"),
        }
    }

    /// The registry's context of a read.
    pub(crate) fn read_context(&self) -> RequestContext {
        RequestContext {
            user: self.user.clone(),
            now: copepod_sys::clock::now(),
            field_manager: String::new(),
            dry_run: false,
            field_validation: copepod_registry::FieldValidation::default(),
            admission: AdmissionChain::default(),
            warnings: self.warnings.clone(),
        }
    }

    /// The registry's context of a write.
    pub(crate) fn write_context(
        &self,
        options: &crate::request::WriteOptions,
        admission: &AdmissionChain,
    ) -> RequestContext {
        RequestContext {
            field_manager: copepod_registry::field_manager(
                &options.field_manager,
                self.header(header::USER_AGENT),
            ),
            dry_run: options.dry_run,
            field_validation: options.field_validation,
            admission: admission.clone(),
            ..self.read_context()
        }
    }
}

/// A header's text; empty when absent.
pub(crate) fn header_text(headers: &HeaderMap, name: impl header::AsHeaderName) -> &str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// All values of a header, joined as one list.
fn header_list(headers: &HeaderMap, name: header::HeaderName) -> String {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).collect();
    values.join(",")
}

impl Handler for Server {
    async fn handle(self: Arc<Self>, peer: Peer, request: Request<Incoming>) -> Response<Body> {
        let started = tokio::time::Instant::now();
        let accept_encoding = header_list(request.headers(), header::ACCEPT_ENCODING);
        let audit_id = match header_text(request.headers(), "audit-id") {
            "" => uuid::Uuid::new_v4().to_string(),
            given => given.to_owned(),
        };
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let info = RequestInfo::parse(request.method(), request.uri().path(), &query);
        let label = crate::metrics::Label::of(&info);
        let running = AssertUnwindSafe(Arc::clone(&self).answer(peer, request, info, query)).catch_unwind();
        let mut response = match running.await {
            Ok(response) => response,
            Err(_) => respond::error(&ApiError::internal("this request caused a panic on the server")),
        };
        respond::compress(&mut response, &accept_encoding);
        if let Ok(value) = HeaderValue::from_str(&audit_id) {
            response.headers_mut().insert("Audit-Id", value);
        }
        self.metrics.observe(label, response.status().as_u16(), started.elapsed());
        response
    }
}

/// What is refused before its handler is reached is not to be guessed at by browsers.
fn unsniffed(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert("X-Content-Type-Options", HeaderValue::from_static("nosniff"));
    response
}

impl Server {
    async fn answer(
        self: Arc<Self>,
        peer: Peer,
        request: Request<Incoming>,
        info: RequestInfo,
        query: Query,
    ) -> Response<Body> {
        let pretty = negotiate::is_pretty(&query, header_text(request.headers(), header::USER_AGENT));
        let accepted = negotiate::for_errors(&header_list(request.headers(), header::ACCEPT), pretty);
        let refuse = |error: &ApiError| respond::error_in(error, accepted);
        let (parts, body) = request.into_parts();
        let body = RequestBody::new(body);
        let user = match self.authn.authenticate(&peer.identity, &parts.headers).await {
            Ok(user) => user,
            Err(error) => return refuse(&error),
        };
        let user = match impersonation::impersonate(user, &parts.headers, &self.authz).await {
            Ok(user) => user,
            Err(error) => return unsniffed(refuse(&error)),
        };
        let warnings = Warnings::default();
        let call = Call { info, query, parts, body, user, warnings: warnings.clone() };
        if let Err(error) = self.authz.require(&call.check()).await {
            return unsniffed(refuse(&error));
        }
        let long = call.info.long_running();
        let routed = Arc::clone(&self).route(call);
        let result = if long {
            routed.await
        } else {
            tokio::time::timeout(REQUEST_TIMEOUT, routed).await.unwrap_or_else(|_| {
                Err(ApiError::timeout("request did not complete within the allotted timeout", 0))
            })
        };
        let mut response = result.unwrap_or_else(|error| refuse(&error));
        respond::add_warnings(&mut response, warnings.take());
        response
    }

    /// Boxed: the futures of all handlers together are large, and most connections sit in the accept loop.
    fn route(self: Arc<Self>, call: Call) -> futures::future::BoxFuture<'static, ApiResult<Response<Body>>> {
        Box::pin(async move {
            if let Some(remote) = self.aggregator.find(&call.info.path) {
                return Ok(self.aggregator.pass(&remote, call).await);
            }
            if call.info.is_resource { self.resource(call).await } else { self.non_resource(call).await }
        })
    }
}
