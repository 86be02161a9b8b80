//! Other API servers behind this one: APIService objects with a service.
//!
//! Requests below such a group and version are passed on, with the user's name in headers that the other server
//! believes because of this server's front-proxy certificate. One task ([`availability`]) checks the other servers,
//! writes the `Available` condition and keeps what discovery needs of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use copepod_registry::UserInfo;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use serde_json::Value;
use tokio::sync::watch;

use crate::body::Body;
use crate::connect::{Relay, relay};
use crate::error::ServeError;
use crate::outbound::{Endpoint, Identity, Outbound};
use crate::reader::Reader;
use crate::respond;
use crate::server::Call;

mod availability;
mod condition;
mod documents;

/// A group and version.
pub(crate) type Served = (String, String);

/// One group and version that another server serves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Remote {
    /// The APIService's name.
    pub name: String,
    /// Where the server is; why that cannot be told.
    pub endpoint: Result<Endpoint, String>,
    /// Whether its condition says that it can be used.
    pub available: bool,
    /// `groupPriorityMinimum`.
    pub priority: i64,
    /// Its resources as aggregated discovery shows them, as of the last good answer.
    pub resources: Value,
    /// Whether `resources` is what the server says now.
    pub fresh: bool,
    /// The address of its OpenAPI v3 document with the document's hash, when it has one.
    pub openapi: Option<String>,
}

/// The other servers, and the way to them.
#[derive(Debug)]
pub(crate) struct Aggregator {
    reader: Reader,
    outbound: Arc<Outbound>,
    /// `--proxy-client-cert-file` and its key.
    identity: ArcSwap<Option<Identity>>,
    remotes: ArcSwap<BTreeMap<Served, Arc<Remote>>>,
    changed: watch::Sender<u64>,
}

impl Aggregator {
    /// Reads the front proxy's certificate; without one other servers see no user.
    pub(crate) fn new(
        reader: Reader,
        outbound: Arc<Outbound>,
        files: Option<(&std::path::Path, &std::path::Path)>,
    ) -> Result<Self, ServeError> {
        let identity = files.map(|(certificate, key)| Identity::load(certificate, key)).transpose()?;
        Ok(Self {
            reader,
            outbound,
            identity: ArcSwap::from_pointee(identity),
            remotes: ArcSwap::default(),
            changed: watch::Sender::new(0),
        })
    }

    /// Uses another certificate from now on.
    pub(crate) fn set_identity(&self, identity: Identity) {
        self.identity.store(Arc::new(Some(identity)));
    }

    /// Ticks when discovery has to change.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// All groups and versions that others serve.
    pub(crate) fn remotes(&self) -> Arc<BTreeMap<Served, Arc<Remote>>> {
        self.remotes.load_full()
    }

    /// Who serves a path below `/apis` or the OpenAPI document of one, when it is another server.
    pub(crate) fn find(&self, path: &str) -> Option<Arc<Remote>> {
        let remotes = self.remotes.load();
        if remotes.is_empty() {
            return None;
        }
        let rest = path.strip_prefix("/openapi/v3").unwrap_or(path).strip_prefix("/apis/")?;
        let mut parts = rest.split('/');
        let served = (parts.next()?.to_owned(), parts.next()?.to_owned());
        remotes.get(&served).cloned()
    }

    /// Passes a request on.
    pub(crate) async fn pass(&self, remote: &Remote, call: Call) -> Response<Body> {
        if !remote.available {
            return refused(503, "service unavailable");
        }
        let endpoint = match &remote.endpoint {
            Ok(endpoint) => endpoint,
            Err(why) => return refused(500, why),
        };
        let place = match self.outbound.resolve(endpoint).await {
            Ok(place) => place,
            Err(why) => {
                tracing::warn!(apiservice = remote.name, why, "service of an API server cannot be resolved");
                return refused(503, "service unavailable");
            }
        };
        let identity = self.identity.load_full();
        let io = match self.outbound.dial_to(endpoint, &place, identity.as_ref().as_ref()).await {
            Ok(io) => Box::new(io),
            Err(why) => return refused(503, &format!("error trying to reach service: {why}")),
        };
        let Call { parts, mut body, user, .. } = call;
        let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
        let to = Relay { authority: place.to_string(), path_and_query: path, prefix: String::new() };
        match relay(io, to, parts, body.take(), |headers| identify(headers, &user)).await {
            Ok(response) => response,
            Err(why) => refused(503, &format!("error trying to reach service: {why}")),
        }
    }

    /// GET of a path of another server, as the aggregator itself; the code and the body.
    async fn get(&self, endpoint: &Endpoint, path: &str) -> Result<(u16, bytes::Bytes), String> {
        let user = UserInfo {
            name: "system:kube-aggregator".to_owned(),
            groups: vec!["system:masters".to_owned()],
            ..UserInfo::default()
        };
        let identity = self.identity.load_full();
        self.outbound
            .get(endpoint, identity.as_ref().as_ref(), path, |headers| identify(headers, &user))
            .await
    }

    /// The OpenAPI v2 documents of the servers that can be asked now.
    pub(crate) async fn openapi_v2(&self) -> Vec<Value> {
        let remotes = self.remotes();
        let mut asked: Vec<&Endpoint> = Vec::new();
        for remote in remotes.values().filter(|remote| remote.available) {
            if let Ok(endpoint) = &remote.endpoint
                && !asked.contains(&endpoint)
            {
                asked.push(endpoint);
            }
        }
        let answers = asked.into_iter().map(|endpoint| self.get(endpoint, "/openapi/v2"));
        let answers = futures::future::join_all(answers).await;
        let good = answers.into_iter().filter_map(Result::ok).filter(|(code, _)| *code == 200);
        good.filter_map(|(_, body)| serde_json::from_slice(&body).ok()).collect()
    }
}

fn refused(code: u16, why: &str) -> Response<Body> {
    let mut response = respond::text(code, format!("{why}\n"));
    response.headers_mut().insert("X-Content-Type-Options", HeaderValue::from_static("nosniff"));
    response
}

/// Names the user in the headers that a front proxy sets; what the client sent there goes.
fn identify(headers: &mut HeaderMap, user: &UserInfo) {
    let set: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-remote-")).cloned().collect();
    for name in set {
        headers.remove(name);
    }
    let mut add = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            headers.append(name, value);
        }
    };
    add("x-remote-user", &user.name);
    if !user.uid.is_empty() {
        add("x-remote-uid", &user.uid);
    }
    for group in &user.groups {
        add("x-remote-group", group);
    }
    for (key, values) in &user.extra {
        let name = format!("x-remote-extra-{}", escape(key));
        values.iter().for_each(|value| add(&name, value));
    }
}

/// A key as part of a header's name: what may not stand there is percent-encoded.
fn escape(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            out.push(char::from(byte).to_ascii_lowercase());
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_server_names_the_user() {
        let mut headers = HeaderMap::new();
        headers.insert("x-remote-user", HeaderValue::from_static("admin"));
        headers.insert("x-remote-extra-a", HeaderValue::from_static("b"));
        let extra = [("authentication.kubernetes.io/pod name".to_owned(), vec!["p".to_owned()])];
        let user = UserInfo {
            name: "me".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            extra: extra.into(),
            ..UserInfo::default()
        };
        identify(&mut headers, &user);
        assert_eq!(headers.get_all("x-remote-user").iter().collect::<Vec<_>>(), ["me"]);
        assert_eq!(headers.get_all("x-remote-group").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(!headers.contains_key("x-remote-extra-a") && !headers.contains_key("x-remote-uid"));
        assert_eq!(headers["x-remote-extra-authentication.kubernetes.io%2fpod%20name"], "p");
    }
}
