//! The client: one HTTP/2 connection, shared by all clones, and one function that sends every request.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use copepod_api::{ApiError, Reason, Status};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::{ClientConfig, Identity};
use crate::{ClientError, Result, tls};

type Http = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A request that is not a watch must be answered in this time.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// A silent connection is probed this often and given up after [`PING_WITHIN`]; a watch could wait on it for ever.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_WITHIN: Duration = Duration::from_secs(15);
/// How long a token from a file is used before the file is read again; upstream's figure.
const TOKEN_AGE: Duration = Duration::from_secs(60);

/// A client of one API server. Cloning is cheap.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    token: Arc<Token>,
}

struct Shared {
    http: Http,
    server: String,
    user_agent: HeaderValue,
}

enum Token {
    None,
    Fixed(HeaderValue),
    File { path: PathBuf, read: Mutex<Option<(Instant, HeaderValue)>> },
    Given(Mutex<Option<HeaderValue>>),
}

/// Where a client made by [`Client::with_bearer`] gets its token from.
#[derive(Clone)]
pub struct BearerSlot {
    token: Arc<Token>,
}

impl fmt::Debug for BearerSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerSlot")
    }
}

impl BearerSlot {
    /// Uses `token` from the next request on.
    ///
    /// # Errors
    /// When it contains characters no header may have.
    pub fn set(&self, token: &str) -> Result<()> {
        if let Token::Given(slot) = &*self.token {
            *slot.lock() = Some(bearer(token)?);
        }
        Ok(())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.shared.server).finish_non_exhaustive()
    }
}

/// One request before it is sent.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) content_type: &'static str,
    pub(crate) accept: &'static str,
    pub(crate) body: Bytes,
}

impl<'a> Call<'a> {
    pub(crate) fn get(path: &'a str, query: &'a str) -> Self {
        Self {
            method: Method::GET,
            path,
            query,
            content_type: "",
            accept: "application/json",
            body: Bytes::new(),
        }
    }
}

impl Client {
    /// A client of the server in `config`; connects at the first request.
    ///
    /// # Errors
    /// When certificates, keys or names in the configuration cannot be used.
    pub fn new(config: &ClientConfig) -> Result<Self> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(10)));
        let secure = config.server.starts_with("https://");
        let tls = if secure { tls::client_tls(config)? } else { no_tls() };
        let mut builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        if let Some(name) = &config.tls_server_name {
            let name = rustls_pki_types::ServerName::try_from(name.clone())
                .map_err(|e| ClientError::Config(format!("tls-server-name: {e}")))?;
            builder = builder.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name));
        }
        let connector = if secure {
            builder.enable_http2().wrap_connector(connector)
        } else {
            builder.enable_all_versions().wrap_connector(connector)
        };
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_only(secure)
            .http2_initial_stream_window_size(256 * 1024)
            .http2_initial_connection_window_size(1024 * 1024)
            .http2_keep_alive_interval(PING_EVERY)
            .http2_keep_alive_timeout(PING_WITHIN)
            .http2_keep_alive_while_idle(true)
            .build(connector);
        let shared = Shared {
            http,
            server: config.server.trim_end_matches('/').to_owned(),
            user_agent: header(&config.user_agent)?,
        };
        Ok(Self { shared: Arc::new(shared), token: Arc::new(Token::of(&config.identity)?) })
    }

    /// A client over the same connection that shows a bearer token of its own: many identities, one connection. The
    /// connection itself must be anonymous, since a server looks at client certificates first.
    #[must_use]
    pub fn with_bearer(&self) -> (Self, BearerSlot) {
        let token = Arc::new(Token::Given(Mutex::new(None)));
        let slot = BearerSlot { token: Arc::clone(&token) };
        (Self { shared: Arc::clone(&self.shared), token }, slot)
    }

    /// Sends `call` and reads the whole answer.
    pub(crate) async fn send(&self, call: Call<'_>) -> Result<Bytes> {
        let (method, path) = (call.method.clone(), call.path.to_owned());
        let whole = async {
            let response = self.open(call).await?;
            let body = response.into_body().collect().await;
            body.map(http_body_util::Collected::to_bytes).map_err(|e| transport(&method, &path, e))
        };
        let late = || ClientError::Timeout {
            method: method.to_string(),
            path: path.clone(),
            seconds: ANSWER_WITHIN.as_secs(),
        };
        tokio::time::timeout(ANSWER_WITHIN, whole).await.map_err(|_| late())?
    }

    /// Sends `call` and returns once the headers of a success are there; a failure becomes its Status.
    pub(crate) async fn open(&self, call: Call<'_>) -> Result<Response<Incoming>> {
        let request = self.request(&call)?;
        let begun = Instant::now();
        let response = self.shared.http.request(request).await;
        let code = response.as_ref().map_or(0, |r| r.status().as_u16());
        crate::metrics::answered(&self.shared.server, &call.method, code, begun.elapsed());
        let response = response.map_err(|e| transport(&call.method, call.path, e))?;
        if response.status().is_success() || response.status() == http::StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        if response.status() == http::StatusCode::UNAUTHORIZED {
            self.token.forget();
        }
        Err(failure(response, &call).await)
    }

    fn request(&self, call: &Call<'_>) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}{}", self.shared.server, call.path, call.query))
            .header(USER_AGENT, &self.shared.user_agent)
            .header(ACCEPT, call.accept);
        if !call.content_type.is_empty() {
            request = request.header(CONTENT_TYPE, call.content_type);
        }
        if let Some(token) = self.token.value()? {
            request = request.header(AUTHORIZATION, token);
        }
        request.body(Full::new(call.body.clone())).map_err(|e| transport(&call.method, call.path, e))
    }
}

fn transport(method: &Method, path: &str, source: impl Into<crate::error::BoxError>) -> ClientError {
    ClientError::Transport { method: method.to_string(), path: path.to_owned(), source: source.into() }
}

/// An answer that is not a Status (a proxy's, or none) is turned into one, so that callers see one form.
async fn failure(response: Response<Incoming>, call: &Call<'_>) -> ClientError {
    let code = response.status();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse::<i32>().ok());
    let body = match response.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(e) => return transport(&call.method, call.path, e),
    };
    if let Ok(status) = serde_json::from_slice::<Status>(&body)
        && status.kind == "Status"
        && !status.reason.is_empty()
    {
        return ClientError::Api(ApiError::from_status(status));
    }
    let text = String::from_utf8_lossy(&body);
    let error = ApiError::new(reason_of(code.as_u16()), text.trim());
    ClientError::Api(retry_after.map_or_else(|| error.clone(), |s| error.clone().with_retry_after(s)))
}

fn reason_of(code: u16) -> Reason {
    match code {
        400 => Reason::BadRequest,
        401 => Reason::Unauthorized,
        403 => Reason::Forbidden,
        404 => Reason::NotFound,
        405 => Reason::MethodNotAllowed,
        406 => Reason::NotAcceptable,
        409 => Reason::Conflict,
        410 => Reason::Gone,
        415 => Reason::UnsupportedMediaType,
        422 => Reason::Invalid,
        429 => Reason::TooManyRequests,
        503 => Reason::ServiceUnavailable,
        504 => Reason::Timeout,
        _ => Reason::InternalError,
    }
}

fn no_tls() -> rustls::ClientConfig {
    rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

fn header(text: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(text)
        .map_err(|_| ClientError::Config("a header value contains control characters".to_owned()))
}

impl Token {
    fn of(identity: &Identity) -> Result<Self> {
        Ok(match identity {
            Identity::Anonymous | Identity::Certificate { .. } => Self::None,
            Identity::Token(token) => Self::Fixed(bearer(token)?),
            Identity::TokenFile(path) => Self::File { path: path.clone(), read: Mutex::new(None) },
        })
    }

    fn value(&self) -> Result<Option<HeaderValue>> {
        let (path, read) = match self {
            Self::None => return Ok(None),
            Self::Fixed(value) => return Ok(Some(value.clone())),
            Self::Given(slot) => return Ok(slot.lock().clone()),
            Self::File { path, read } => (path, read),
        };
        let mut read = read.lock();
        if let Some((at, value)) = read.as_ref()
            && at.elapsed() < TOKEN_AGE
        {
            return Ok(Some(value.clone()));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| ClientError::File { path: path.clone(), source })?;
        let value = bearer(text.trim())?;
        *read = Some((Instant::now(), value.clone()));
        Ok(Some(value))
    }

    fn forget(&self) {
        if let Self::File { read, .. } = self {
            *read.lock() = None;
        }
    }
}

fn bearer(token: &str) -> Result<HeaderValue> {
    let mut value = header(&format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}
