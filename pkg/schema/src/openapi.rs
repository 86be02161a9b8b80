//! OpenAPI documents from the tables: v3, one document a group version, and v2, one document in all.
//!
//! Nothing is kept: a document is built when asked for. Its identity ([`digest`]) comes from what it is made of, so
//! that indexes and `ETag`s cost no document. Prose comes from [`crate::descriptions`], where built in.

use copepod_api::ResourceDef;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};

mod custom;
mod definitions;
mod paths;
#[cfg(test)]
mod tests;

pub use custom::model_name;

/// The dialect of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

impl Dialect {
    const fn prefix(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }

    fn reference(self, model: &str) -> Value {
        json!({"$ref": format!("{}{model}", self.prefix())})
    }
}

/// A custom resource with the schema its definition gives, as written.
#[derive(Debug, Clone, Copy)]
pub struct Custom<'a> {
    /// The row, one version of a kind.
    pub row: &'a ResourceDef,
    /// `openAPIV3Schema`; none when the definition has none.
    pub schema: Option<&'a Value>,
}

/// What a document is made of.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Rows of built-in resources.
    pub rows: &'a [&'a ResourceDef],
    /// Custom resources.
    pub custom: &'a [Custom<'a>],
    /// Upstream's `gitVersion`, shown by the v2 document.
    pub version: &'a str,
}

/// The hash that identifies the document of some sources, in upper-case hex as upstream writes it.
#[must_use]
pub fn digest(sources: &Sources<'_>) -> String {
    let mut hash = Sha512::new();
    hash.update(sources.version.as_bytes());
    for row in sources.rows.iter().copied().chain(sources.custom.iter().map(|custom| custom.row)) {
        hash.update(serde_json::to_vec(row).unwrap_or_default());
    }
    for custom in sources.custom {
        hash.update(serde_json::to_vec(&custom.schema).unwrap_or_default());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The path of a group version below `/openapi/v3/`: `api/v1`, `apis/apps/v1`.
#[must_use]
pub fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The document of `/openapi/v3`: where the document of each group version is, by path and hash.
pub fn index(entries: impl IntoIterator<Item = (String, String)>) -> Value {
    let paths: Map<String, Value> = entries
        .into_iter()
        .map(|(path, hash)| {
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// The v3 document of one group version.
#[must_use]
pub fn v3(sources: &Sources<'_>) -> Value {
    let mut schemas = definitions::Definitions::new(Dialect::V3);
    let paths = all(sources, &mut schemas);
    let mut components = Map::new();
    components.insert("schemas".to_owned(), schemas.finish());
    components.insert("securitySchemes".to_owned(), json!({"BearerToken": bearer()}));
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": sources.version},
        "paths": paths,
        "components": components,
    })
}

/// The v2 document of everything.
#[must_use]
pub fn v2(sources: &Sources<'_>) -> Value {
    let mut definitions = definitions::Definitions::new(Dialect::V2);
    let paths = all(sources, &mut definitions);
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": sources.version},
        "paths": paths,
        "definitions": definitions.finish(),
        "securityDefinitions": {"BearerToken": bearer()},
        "security": [{"BearerToken": []}],
    })
}

fn bearer() -> Value {
    json!({"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication"})
}

fn all(sources: &Sources<'_>, definitions: &mut definitions::Definitions) -> Value {
    let mut paths = Map::new();
    for row in sources.rows {
        paths::add(row, definitions, &mut paths);
    }
    for custom in sources.custom {
        custom::add(custom, definitions);
        paths::add(custom.row, definitions, &mut paths);
    }
    Value::Object(paths)
}
