//! `/openapi/v2` and `/openapi/v3`: documents built on demand, with entity tags that cost no document.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use copepod_api::{ApiResult, ResourceDef};
use copepod_registry::Registry;
use copepod_schema::openapi::{self, Custom, Sources};
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};

use crate::aggregator::Aggregator;
use crate::body::Body;
use crate::handlers::{GIT_VERSION, tagged};
use crate::negotiate;
use crate::reader::Reader;
use crate::server::Call;

mod merge;

/// A document that there is not. Upstream's handler of these documents is not that of the API.
pub(crate) fn not_found() -> Response<Body> {
    bare(http::StatusCode::NOT_FOUND)
}

/// An answer of nothing but its code.
fn bare(code: http::StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// The documents' source.
#[derive(Debug)]
pub(crate) struct OpenApi {
    /// The rows.
    pub registry: Arc<Registry>,
    /// Reads CustomResourceDefinitions.
    pub reader: Reader,
    /// Other servers.
    pub aggregator: Arc<Aggregator>,
}

/// The rows of one document, and the schemas of the custom ones.
struct Material {
    builtin: Vec<Arc<ResourceDef>>,
    custom: Vec<(Arc<ResourceDef>, Option<Value>)>,
}

impl Material {
    fn with<T>(&self, read: impl FnOnce(&Sources<'_>) -> T) -> T {
        let rows: Vec<&ResourceDef> = self.builtin.iter().map(AsRef::as_ref).collect();
        let custom: Vec<Custom<'_>> =
            self.custom.iter().map(|(row, schema)| Custom { row, schema: schema.as_ref() }).collect();
        read(&Sources { rows: &rows, custom: &custom, version: GIT_VERSION })
    }
}

impl OpenApi {
    /// Answers a path below `/openapi/`; `None` when there is no such document.
    pub(crate) async fn answer(&self, path: &str, call: &Call) -> ApiResult<Option<Response<Body>>> {
        match path {
            "/openapi/v2" => self.v2(call).await.map(Some),
            "/openapi/v3" => {
                let mut entries = Vec::new();
                for (path, rows) in self.versions() {
                    let material = self.material(rows).await;
                    entries.push((path, material.with(openapi::digest)));
                }
                let mut index = openapi::index(entries);
                for ((group, version), remote) in self.aggregator.remotes().iter() {
                    if let Some(url) = &remote.openapi {
                        index["paths"][format!("apis/{group}/{version}")] = json!({"serverRelativeURL": url});
                    }
                }
                let document = index.to_string();
                let tag = hex::encode_upper(ring::digest::digest(&ring::digest::SHA512, document.as_bytes()));
                Ok(Some(tagged(call, document.into(), &tag, "application/json")))
            }
            other => {
                let wanted = other.strip_prefix("/openapi/v3/").unwrap_or_default();
                let Some(rows) = self.versions().remove(wanted) else { return Ok(None) };
                Ok(Some(self.v3(call, self.material(rows).await)))
            }
        }
    }

    fn v3(&self, call: &Call, material: Material) -> Response<Body> {
        let tag = material.with(openapi::digest);
        let known = is_known(call, &tag);
        let document = if known { Bytes::new() } else { material.with(openapi::v3).to_string().into() };
        let mut response = tagged(call, document, &tag, "application/json");
        if call.query.text("hash") == tag {
            // The address names the content: it never changes.
            let forever = HeaderValue::from_static("public, immutable, max-age=31536000");
            response.headers_mut().insert(header::CACHE_CONTROL, forever);
        }
        response
    }

    async fn v2(&self, call: &Call) -> ApiResult<Response<Body>> {
        let Some(media_type) = v2_media_type(call.header(header::ACCEPT)) else {
            let mut response = bare(http::StatusCode::NOT_ACCEPTABLE);
            response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept"));
            return Ok(response);
        };
        let material = self.material(self.registry.rows()).await;
        let others = self.aggregator.openapi_v2().await;
        let mut tag = material.with(openapi::digest);
        if !others.is_empty() {
            let all = format!("{tag}{}", Value::from(others.clone()));
            tag = hex::encode_upper(ring::digest::digest(&ring::digest::SHA512, all.as_bytes()));
        }
        let json = media_type == V2_TYPES[0];
        if !json {
            // Another form, another tag.
            tag.make_ascii_lowercase();
        }
        // Asked by its old name, protobuf answers by the new one.
        let media_type = if json { media_type } else { V2_TYPES[2] };
        if is_known(call, &tag) {
            return Ok(tagged(call, Bytes::new(), &tag, media_type));
        }
        let document = material.with(openapi::v2);
        let document: Bytes = match (json, others.is_empty()) {
            (true, true) => document.to_string().into(),
            (false, true) => document.to_protobuf().into(),
            (true, false) => merge::all(&document.to_string(), others)?.into(),
            (false, false) => openapi::protobuf_of(&merge::all(&document.to_string(), others)?).into(),
        };
        Ok(tagged(call, document, &tag, media_type))
    }

    /// Rows by the path of their document.
    fn versions(&self) -> BTreeMap<String, Vec<Arc<ResourceDef>>> {
        let mut versions: BTreeMap<String, Vec<Arc<ResourceDef>>> = BTreeMap::new();
        for row in self.registry.rows() {
            versions.entry(openapi::path(&row.group, &row.version)).or_default().push(row);
        }
        versions
    }

    async fn material(&self, rows: Vec<Arc<ResourceDef>>) -> Material {
        let mut material = Material { builtin: Vec::new(), custom: Vec::new() };
        for row in rows {
            if row.custom {
                let schema = self.schema_of(&row).await;
                material.custom.push((row, schema));
            } else {
                material.builtin.push(row);
            }
        }
        material
    }

    async fn schema_of(&self, row: &ResourceDef) -> Option<Value> {
        let name = format!("{}.{}", row.plural, row.group);
        let definition =
            self.reader.get("apiextensions.k8s.io", "customresourcedefinitions", None, &name).await?;
        let versions = definition.pointer("/spec/versions")?.as_array()?;
        let version = versions.iter().find(|v| v["name"].as_str() == Some(&row.version))?;
        version.pointer("/schema/openAPIV3Schema").cloned()
    }
}

/// The forms of the v2 document: JSON, and protobuf by its old and its new name.
const V2_TYPES: [&str; 3] = [
    "application/json",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];

fn v2_media_type(accept: &str) -> Option<&'static str> {
    if accept.is_empty() {
        return Some(V2_TYPES[0]);
    }
    let clauses = negotiate::parse_accept(accept);
    clauses.iter().find_map(|clause| V2_TYPES.into_iter().find(|media_type| clause.allows(media_type)))
}

fn is_known(call: &Call, tag: &str) -> bool {
    call.header(header::IF_NONE_MATCH).split(',').any(|t| t.trim().trim_matches('"') == tag)
}
