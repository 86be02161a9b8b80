//! A small HTTP client for probes and hooks: one connection per request, certificates of pods are
//! not verified (upstream's rule), redirects are followed on the same host only.

use std::sync::Arc;
use std::time::Duration;

use copepod_pki::ServerVerifier;
use http::{HeaderName, HeaderValue, Request};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::HTTPGetAction;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Most redirects followed.
const MAX_REDIRECTS: usize = 10;
/// Most bytes of a body that are read.
const MAX_BODY: usize = 10 * 1024;

/// Where to send a request.
#[derive(Debug, Clone)]
pub struct HttpTarget {
    https: bool,
    host: String,
    port: u16,
    path: String,
    headers: Vec<(String, String)>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Status code of the last answer.
    pub status: u16,
    /// Set when it redirects to another host, which is not followed.
    pub foreign_redirect: Option<String>,
}

/// `host:port`, with brackets around IPv6 addresses.
#[must_use]
pub fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// A connection error in Go's words, which events and tests quote.
#[must_use]
pub fn system_text(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        std::io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        std::io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        _ => error.to_string(),
    }
}

impl HttpTarget {
    /// The target of a probe or hook; `agent` is the User-Agent's second word.
    #[must_use]
    pub fn new(get: &HTTPGetAction, host: String, port: u16, agent: &str) -> Self {
        let mut headers: Vec<_> =
            get.http_headers.iter().flatten().map(|h| (h.name.clone(), h.value.clone())).collect();
        let mut default = |name: &str, value: &str| {
            if !headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)) {
                headers.push((name.to_owned(), value.to_owned()));
            }
        };
        default("User-Agent", &format!("kube-{agent}/1.37"));
        default("Accept", "*/*");
        let path = get.path.clone().unwrap_or_default();
        let path = if path.starts_with('/') { path } else { format!("/{path}") };
        Self { https: get.scheme.as_deref() == Some("HTTPS"), host, port, path, headers }
    }

    /// The URL in events.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}{}", authority(&self.host, self.port), self.path)
    }

    /// The target of a redirect; `None` for another host.
    fn redirect(&self, location: &str) -> Option<Self> {
        let mut next = self.clone();
        if location.starts_with('/') {
            location.clone_into(&mut next.path);
            return Some(next);
        }
        let uri: http::Uri = location.parse().ok()?;
        if uri.host()? != self.host {
            return None;
        }
        next.https = uri.scheme_str() == Some("https");
        next.port = uri.port_u16().unwrap_or(if next.https { 443 } else { 80 });
        next.path = uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
        Some(next)
    }
}

/// Sends a GET; follows redirects on the same host. The whole exchange takes at most `limit`.
///
/// # Errors
/// A text in Go's words when no answer came.
pub async fn get(target: &HttpTarget, limit: Duration) -> Result<HttpAnswer, String> {
    let run = async {
        let mut at = target.clone();
        for _ in 0..MAX_REDIRECTS {
            let (status, location) = exchange(&at).await?;
            let Some(location) = location.filter(|_| (300..400).contains(&status)) else {
                return Ok(HttpAnswer { status, foreign_redirect: None });
            };
            match at.redirect(&location) {
                Some(next) => at = next,
                None => return Ok(HttpAnswer { status, foreign_redirect: Some(location) }),
            }
        }
        Err(format!("stopped after {MAX_REDIRECTS} redirects"))
    };
    timeout(limit, run).await.unwrap_or_else(|_| {
        Err("context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned())
    })
}

async fn exchange(target: &HttpTarget) -> Result<(u16, Option<String>), String> {
    let address = authority(&target.host, target.port);
    let tcp = TcpStream::connect(&address)
        .await
        .map_err(|error| format!("dial tcp {address}: {}", system_text(&error)))?;
    if !target.https {
        return send(target, tcp).await;
    }
    let name = ServerName::try_from(target.host.clone()).map_err(|e| e.to_string())?;
    // Pods serve certificates of their own, and a probe carries no secret.
    let tls = ServerVerifier::any().client().with_no_client_auth();
    let tls = tokio_rustls::TlsConnector::from(Arc::new(tls));
    let stream = tls.connect(name, tcp).await.map_err(|error| format!("tls: {error}"))?;
    send(target, stream).await
}

async fn send<S>(target: &HttpTarget, stream: S) -> Result<(u16, Option<String>), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
    let driver = copepod_supervisor::spawn("probe connection", async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "probe connection ended");
        }
    });
    let mut request = Request::get(target.path.as_str());
    for (name, value) in &target.headers {
        let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) else {
            continue;
        };
        request = request.header(name, value);
    }
    if !target.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("host")) {
        request = request.header("Host", authority(&target.host, target.port));
    }
    let request =
        request.header("Connection", "close").body(Empty::<Bytes>::new()).map_err(|e| e.to_string())?;
    let response = sender.send_request(request).await.map_err(|e| e.to_string());
    let result = match response {
        Ok(response) => {
            let status = response.status().as_u16();
            let location =
                response.headers().get("location").and_then(|l| l.to_str().ok()).map(str::to_owned);
            // A body that is too long or broken does not matter: the status is the answer.
            drop(Limited::new(response.into_body(), MAX_BODY).collect().await);
            Ok((status, location))
        }
        Err(error) => Err(error),
    };
    driver.abort();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn serve(answers: Vec<&'static str>) -> u16 {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        copepod_supervisor::spawn("test server", async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buffer = [0; 1024];
                let _read = stream.read(&mut buffer).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        port
    }

    fn target(port: u16) -> HttpTarget {
        HttpTarget::new(&HTTPGetAction::default(), "127.0.0.1".to_owned(), port, "probe")
    }

    #[tokio::test]
    async fn status_and_redirects() {
        let limit = Duration::from_secs(2);
        let port = serve(vec!["HTTP/1.1 503 no\r\nContent-Length: 0\r\n\r\n"]).await;
        assert_eq!(get(&target(port), limit).await.unwrap().status, 503);
        let port = serve(vec![
            "HTTP/1.1 302 go\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 ok\r\nContent-Length: 2\r\n\r\nok",
        ])
        .await;
        assert_eq!(
            get(&target(port), limit).await.unwrap(),
            HttpAnswer { status: 200, foreign_redirect: None }
        );
        let port =
            serve(vec!["HTTP/1.1 302 go\r\nLocation: http://other/\r\nContent-Length: 0\r\n\r\n"]).await;
        assert_eq!(
            get(&target(port), limit).await.unwrap().foreign_redirect.as_deref(),
            Some("http://other/")
        );
    }

    #[tokio::test]
    async fn refused_connection_is_worded_as_in_go() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error = get(&target(port), Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(error, format!("dial tcp 127.0.0.1:{port}: connect: connection refused"));
    }
}
