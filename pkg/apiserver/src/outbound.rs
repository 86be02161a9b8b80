//! Calls to other servers that objects name: admission and conversion webhooks, aggregated API servers.
//!
//! A call goes to a service (its cluster address, or an endpoint of it) or to a URL, over TLS that the object's bundle
//! of authorities verifies. Connections are kept for a short while and shared; an idle server holds none. Errors are
//! texts, and the texts are those of upstream's client: users and tools look for them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use serde_json::Value;

mod address;
mod answer;
mod conversion;
mod pool;
mod tls;

pub(crate) use address::{Endpoint, Place};
pub(crate) use conversion::Conversions;
pub(crate) use pool::Stream;
pub(crate) use tls::Identity;

use pool::Pool;

/// The largest answer that is read.
const MAX_ANSWER: usize = 64 << 20;

/// Makes calls to webhooks and aggregated servers.
#[derive(Debug)]
pub(crate) struct Outbound {
    resolver: address::Resolver,
    pool: Pool,
}

impl Outbound {
    /// A caller that finds services by `reader`; `routing` sends to endpoints instead of cluster addresses
    /// (`--enable-aggregator-routing`).
    pub(crate) fn new(reader: crate::reader::Reader, routing: bool) -> Arc<Self> {
        Arc::new(Self { resolver: address::Resolver { reader, routing }, pool: Pool::default() })
    }

    /// Posts JSON and reads JSON back.
    ///
    /// # Errors
    /// A text as upstream's client words it.
    pub(crate) async fn post(&self, to: &Endpoint, timeout: Duration, body: String) -> Result<Value, String> {
        let url = format!("{}?timeout={}s", to.url(), timeout.as_secs_f64().ceil());
        let exchange = tokio::time::timeout(timeout, self.exchange(to, &url, Bytes::from(body))).await;
        let done = exchange.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        let answer = done.map_err(|why| format!("Post {}: {why}", copepod_api::field::quote(&url)))?;
        answer::json(answer.status().as_u16(), content_type(&answer), answer.body())
    }

    async fn exchange(&self, to: &Endpoint, url: &str, body: Bytes) -> Result<Response<Bytes>, String> {
        let path = url.splitn(4, '/').nth(3).unwrap_or_default();
        let make = || {
            let mut request = Request::new(Full::new(body.clone()));
            *request.method_mut() = http::Method::POST;
            *request.uri_mut() = format!("/{path}").parse().unwrap_or_default();
            let headers = request.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, */*"));
            headers.insert(header::USER_AGENT, HeaderValue::from_static("kube-apiserver-admission"));
            if let Ok(host) = HeaderValue::from_str(&to.authority()) {
                headers.insert(header::HOST, host);
            }
            request
        };
        let response = self.send(to, make).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|e| e.to_string())?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    /// Sends what `make` makes over a kept or a new connection, and keeps the connection when the answer's body has
    /// been read.
    async fn send(
        &self,
        to: &Endpoint,
        make: impl Fn() -> Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, String> {
        let place = self.resolver.resolve(to).await?;
        while let Some(mut sender) = self.pool.take(to, &place) {
            match sender.try_send_request(boxed(make())).await {
                Ok(response) => {
                    self.pool.keep(to, &place, sender);
                    return Ok(response);
                }
                // The far side closed it while it was idle; a new one may work.
                Err(error) if error.message().is_some() => {}
                Err(error) => return Err(pool::failure(&error.into_error())),
            }
        }
        let mut sender = self.pool.connect(to, &place, None).await?;
        let response = sender.send_request(boxed(make())).await.map_err(|e| pool::failure(&e))?;
        self.pool.keep(to, &place, sender);
        Ok(response)
    }

    /// A new connection to an endpoint, for requests that are passed on.
    ///
    /// # Errors
    /// A text as upstream's client words it.
    pub(crate) async fn dial_to(
        &self,
        to: &Endpoint,
        place: &Place,
        identity: Option<&Identity>,
    ) -> Result<Stream, String> {
        self.pool.dial(to, place, identity).await
    }

    /// GET of a path over a connection of its own; the code and the body.
    ///
    /// # Errors
    /// A text as upstream's client words it.
    pub(crate) async fn get(
        &self,
        to: &Endpoint,
        identity: Option<&Identity>,
        path: &str,
        identify: impl FnOnce(&mut http::HeaderMap),
    ) -> Result<(u16, Bytes), String> {
        let place = self.resolver.resolve(to).await?;
        let mut sender = self.pool.connect(to, &place, identity).await?;
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.uri_mut() = path.parse().map_err(|_| format!("invalid path {path}"))?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Ok(host) = HeaderValue::from_str(&place.to_string()) {
            headers.insert(header::HOST, host);
        }
        identify(headers);
        let response = sender.send_request(boxed(request)).await.map_err(|e| pool::failure(&e))?;
        let status = response.status().as_u16();
        let body =
            Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|e| e.to_string())?;
        Ok((status, body.to_bytes()))
    }

    /// Where an endpoint is now.
    ///
    /// # Errors
    /// A service that does not exist or has no such port.
    pub(crate) async fn resolve(&self, to: &Endpoint) -> Result<Place, String> {
        self.resolver.resolve(to).await
    }
}

fn content_type<T>(answer: &Response<T>) -> &str {
    answer.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

fn boxed(request: Request<Full<Bytes>>) -> Request<pool::Outgoing> {
    request.map(|body| body.map_err(|never| match never {}).boxed())
}

#[cfg(test)]
mod tests;
