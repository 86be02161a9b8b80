//! OpenAPI documents from the tables: v3, one document a group version, and v2, one document in all.
//!
//! Nothing is kept: a document is built when asked for. Its identity ([`digest`]) comes from what it is made of, so
//! that indexes and `ETag`s cost no document. Prose comes from [`crate::descriptions`], where built in.

use std::{collections::BTreeMap, fmt};

use copepod_api::ResourceDef;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};

mod custom;
mod definitions;
mod message;
mod operation;
mod parameters;
mod paths;
#[cfg(test)]
mod tests;

pub use custom::model_name;
pub use message::protobuf_of;

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

/// A document in pieces of text: a tree of it all would take twenty times the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    dialect: Dialect,
    version: String,
    paths: BTreeMap<String, String>,
    definitions: BTreeMap<String, String>,
}

/// The one way to authenticate.
fn bearer() -> Value {
    json!({"type": "apiKey", "name": "authorization", "in": "header",
        "description": "Bearer Token authentication"})
}

/// Writes the document as JSON.
impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = json!({"title": "Kubernetes", "version": self.version});
        let bearer = bearer();
        match self.dialect {
            Dialect::V3 => {
                write!(f, r#"{{"openapi":"3.0.0","info":{info},"paths":"#)?;
                object(f, &self.paths)?;
                f.write_str(r#","components":{"schemas":"#)?;
                object(f, &self.definitions)?;
                write!(f, r#","securitySchemes":{{"BearerToken":{bearer}}}}}}}"#)
            }
            Dialect::V2 => {
                write!(f, r#"{{"swagger":"2.0","info":{info},"paths":"#)?;
                object(f, &self.paths)?;
                f.write_str(r#","definitions":"#)?;
                object(f, &self.definitions)?;
                write!(
                    f,
                    r#","securityDefinitions":{{"BearerToken":{bearer}}},"security":[{{"BearerToken":[]}}]}}"#
                )
            }
        }
    }
}

/// An object whose values are JSON already.
fn object(f: &mut fmt::Formatter<'_>, entries: &BTreeMap<String, String>) -> fmt::Result {
    for (at, (key, value)) in entries.iter().enumerate() {
        let before = if at == 0 { "{" } else { "," };
        write!(f, "{before}{}:{value}", Value::from(key.as_str()))?;
    }
    f.write_str(if entries.is_empty() { "{}" } else { "}" })
}

/// The v3 document of one group version.
#[must_use]
pub fn v3(sources: &Sources<'_>) -> Document {
    document(sources, Dialect::V3)
}

/// The v2 document of everything.
#[must_use]
pub fn v2(sources: &Sources<'_>) -> Document {
    document(sources, Dialect::V2)
}

/// `1.37` of `v1.37.2`.
fn release(version: &str) -> String {
    let mut parts = version.trim_start_matches('v').splitn(3, '.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{major}.{minor}")
}

fn document(sources: &Sources<'_>, dialect: Dialect) -> Document {
    let mut definitions = definitions::Definitions::new(dialect, sources.rows);
    let mut paths = BTreeMap::new();
    for row in sources.rows {
        paths::add(row, &mut definitions, &mut paths);
    }
    for custom in sources.custom {
        custom::add(custom, &mut definitions);
        paths::add(custom.row, &mut definitions, &mut paths);
    }
    Document { dialect, version: release(sources.version), paths, definitions: definitions.finish() }
}
