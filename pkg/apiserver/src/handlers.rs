//! What answers each kind of request.

use std::sync::Arc;

use copepod_api::{ApiError, ApiResult, GroupVersionResource, Reason, Verb};
use copepod_registry::Store;
use http::{HeaderValue, Response, header};
use serde_json::json;

use crate::body::Body;
use crate::negotiate;
use crate::respond;
use crate::server::{Call, Server};

mod read;
mod table;
mod watch;
mod write;

/// The version this server is compatible with.
pub(crate) const GIT_VERSION: &str = "v1.37.2";

/// Paths of documents beside discovery and health checks.
const PATHS: [&str; 9] = [
    "/.well-known/openid-configuration",
    "/api",
    "/apis/",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/version",
];

/// A document about tokens' signatures, which clients may keep for an hour.
fn cacheable(mut response: Response<Body>) -> Response<Body> {
    let hour = HeaderValue::from_static("public, max-age=3600");
    response.headers_mut().insert(header::CACHE_CONTROL, hour);
    response
}

/// What no handler serves.
fn not_found() -> Response<Body> {
    respond::text(404, "404 page not found\n")
}

impl Server {
    /// Paths outside the API groups.
    pub(crate) async fn non_resource(self: Arc<Self>, call: Call) -> ApiResult<Response<Body>> {
        let path = call.info.path.as_str();
        let trimmed = if path.len() > 1 { path.trim_end_matches('/') } else { path };
        if let Some(response) = self.health.answer(trimmed, &call.query) {
            return Ok(response);
        }
        match trimmed {
            "/" => Ok(respond::indented(200, &json!({"paths": self.paths()}))),
            "/version" => Ok(respond::indented(200, &version())),
            "/metrics" => {
                Ok(respond::with_type(200, "text/plain; version=0.0.4; charset=utf-8", self.metrics.render()))
            }
            "/.well-known/openid-configuration" => {
                Ok(cacheable(respond::json(200, &self.openid_configuration())))
            }
            "/openid/v1/jwks" => {
                let keys: Vec<_> =
                    self.authn.tokens.keys.iter().map(copepod_pki::jwt::PublicKey::to_jwk).collect();
                let body = json!({"keys": keys}).to_string();
                Ok(cacheable(respond::with_type(200, "application/jwk-set+json", body)))
            }
            _ if trimmed.starts_with("/openapi/") => {
                Ok(self.openapi.answer(trimmed, &call).await?.unwrap_or_else(crate::openapi::not_found))
            }
            _ if trimmed.starts_with("/api") => self.discover(trimmed, &call),
            _ => Ok(not_found()),
        }
    }

    fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = PATHS.map(str::to_owned).to_vec();
        paths.extend(self.health.paths());
        paths.extend(self.discovery.load().paths());
        paths.sort();
        paths
    }

    fn openid_configuration(&self) -> serde_json::Value {
        let issuer = self.authn.tokens.issuers.first().map_or("", String::as_str);
        let mut algorithms: Vec<&str> = self.authn.tokens.keys.iter().map(|k| k.algorithm()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let jwks = match self.config.service_account_jwks_uri.as_str() {
            "" => format!("https://{}:{}/openid/v1/jwks", self.advertised, self.port),
            uri => uri.to_owned(),
        };
        json!({
            "issuer": issuer, "jwks_uri": jwks, "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": algorithms,
        })
    }

    fn discover(&self, path: &str, call: &Call) -> ApiResult<Response<Body>> {
        let discovery = self.discovery.load();
        let accept = call.header(header::ACCEPT);
        if let Some((document, tag)) = discovery.aggregated(path) {
            for clause in negotiate::parse_accept(accept) {
                if !clause.allows("application/json") {
                    continue;
                }
                if clause.param("g") == "apidiscovery.k8s.io" && clause.param("v") == "v2" {
                    let document = respond::line(document.clone());
                    return Ok(tagged(call, document, tag, crate::discovery::AGGREGATED));
                }
                if clause.param("g").is_empty() {
                    break;
                }
            }
        }
        let pretty = negotiate::is_pretty(&call.query, call.header(header::USER_AGENT));
        let accepted = negotiate::negotiate(accept, negotiate::Transforms::None, pretty)?;
        let address = format!("{}:{}", self.advertised, self.port);
        match discovery.legacy(path, &address) {
            Some(document) => Ok(respond::object(200, accepted, document)),
            None => self.no_resource(path.split('/').nth(2).filter(|_| path.starts_with("/apis/"))),
        }
    }

    /// Resources: reviews that are never stored, connections, then everything the registry serves.
    pub(crate) async fn resource(self: Arc<Self>, call: Call) -> ApiResult<Response<Body>> {
        let info = &call.info;
        let gvr = GroupVersionResource::new(&info.group, &info.version, &info.resource);
        if crate::reviews::serves(&gvr) {
            return self.review(call).await;
        }
        if gvr == GroupVersionResource::new("", "v1", "bindings") {
            return self.bind(call).await;
        }
        let Some(store) = self.registry.store(&gvr) else { return self.no_resource(Some(&info.group)) };
        if !store.def().deprecation.is_empty() {
            call.warnings.add(store.def().deprecation.as_str());
        }
        if crate::connect::serves(info) {
            return self.connect(call).await;
        }
        let def = store.def();
        let sub = info.subresource.as_str();
        if def.custom && !def.namespaced() && !info.namespace.is_empty() {
            return Ok(not_found());
        }
        if !sub.is_empty() && def.subresource(sub).is_none() {
            return if def.custom {
                // Custom resources have one route for all subresources.
                Err(ApiError::not_found(
                    &copepod_api::GroupResource::new(&def.group, &def.plural),
                    &info.name,
                ))
            } else {
                self.no_resource(Some(&info.group))
            };
        }
        let everywhere = info.namespace.is_empty() && def.namespaced();
        let whole =
            matches!(info.verb.as_str(), "list" | "watch" | "deletecollection") || info.name.is_empty();
        if everywhere && !whole {
            return self.no_resource(Some(&info.group));
        }
        if !has_route(&call, def, everywhere) {
            return Err(not_allowed());
        }
        match info.verb.as_str() {
            "get" => self.get(&store, &call).await,
            "list" => self.list(&store, &call).await,
            "watch" => self.watch(&store, &call).await,
            "create" => self.create(&store, call).await,
            "update" => self.update(&store, call).await,
            "patch" => self.patch(&store, call).await,
            "delete" => self.delete(&store, call).await,
            "deletecollection" => self.delete_collection(&store, call).await,
            _ => Err(not_allowed()),
        }
    }

    /// A path below a group that has no such version, resource or subresource. Groups of upstream's own answer with a
    /// Status, all else with a text.
    pub(crate) fn no_resource(&self, group: Option<&str>) -> ApiResult<Response<Body>> {
        let group = group.unwrap_or_default();
        let rows = self.registry.rows();
        let of_group = |row: &&Arc<copepod_api::ResourceDef>| !row.custom && row.group == group;
        let mut versions = rows.iter().filter(of_group);
        if versions.next().is_none() {
            return Ok(not_found());
        }
        let mut error = ApiError::new(Reason::NotFound, "the server could not find the requested resource");
        error.status_mut().details = Some(copepod_api::status::StatusDetails::default());
        Err(error)
    }
}

/// A method that no route of the path has.
pub(crate) fn not_allowed() -> ApiError {
    let text = "the server does not allow this method on the requested resource";
    let mut error = ApiError::new(Reason::MethodNotAllowed, text);
    error.status_mut().details = Some(copepod_api::status::StatusDetails::default());
    error
}

/// Whether the method is one of those of the path: of the collection (`everywhere` of all namespaces), of an object, or
/// of a subresource.
fn has_route(call: &Call, def: &copepod_api::ResourceDef, everywhere: bool) -> bool {
    let info = &call.info;
    let (method, verb) = (call.parts.method.as_str(), info.verb.as_str());
    let collection = info.subresource.is_empty()
        && (info.name.is_empty() || matches!(verb, "list" | "watch" | "deletecollection"));
    if !info.subresource.is_empty() {
        // A subresource has the methods of its verbs; no other may fall through to the object.
        return def.subresource(&info.subresource).is_some_and(|sub| {
            let wanted = match method {
                "GET" => Verb::Get,
                "POST" => Verb::Create,
                "PUT" => Verb::Update,
                "PATCH" => Verb::Patch,
                "DELETE" => Verb::Delete,
                _ => return false,
            };
            sub.verbs.has(wanted)
        });
    }
    match method {
        "HEAD" => false,
        "GET" => true,
        "POST" => collection && !everywhere,
        "DELETE" if collection => !everywhere && def.verbs.has(Verb::DeleteCollection),
        "PUT" | "PATCH" | "DELETE" => !collection,
        _ => false,
    }
}

/// The scope a handler works in, for signatures.
pub(crate) type StoreRef = Store;

/// A document with an entity tag: 304 when the client has it.
pub(crate) fn tagged(call: &Call, document: bytes::Bytes, tag: &str, media_type: &str) -> Response<Body> {
    let quoted = format!("\"{tag}\"");
    let known =
        call.header(header::IF_NONE_MATCH).split(',').any(|t| t.trim().trim_start_matches("W/") == quoted);
    let mut response = if known {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = http::StatusCode::NOT_MODIFIED;
        response
    } else {
        respond::with_type(200, media_type, document)
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.append(header::VARY, HeaderValue::from_static("Accept"));
    if let Ok(value) = HeaderValue::from_str(&quoted) {
        headers.insert(header::ETAG, value);
    }
    response
}

fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": "37", "emulationMajor": "1", "emulationMinor": "37",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "36",
        "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": format!("linux/{}", architecture()),
    })
}

/// The machine's architecture as Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
