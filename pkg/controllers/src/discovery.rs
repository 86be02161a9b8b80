//! Which resources the server has, built in or not.

use copepod_client::{Client, ClientError, ResourceRef, Target};
use serde::Deserialize;

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A resource and what can be done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Discovered {
    /// The resource, in its group's preferred version.
    pub(crate) resource: ResourceRef,
    /// Its verbs.
    pub(crate) verbs: Vec<String>,
}

impl Discovered {
    /// Whether it has all of `verbs`.
    #[must_use]
    pub(crate) fn has(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|v| v == verb))
    }
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    metadata: copepod_client::Meta,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Resource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    response_kind: Kind,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Kind {
    kind: String,
}

/// Asks for all resources. Each is listed once, in the first version of its group that has it. The flag tells whether
/// the answer is complete: `false` while an aggregated server is unreachable.
///
/// # Errors
/// The server's Status, or a transport error.
pub(crate) async fn discover(client: &Client) -> Result<(Vec<Discovered>, bool), ClientError> {
    let mut all = Vec::new();
    let mut complete = true;
    for path in ["/api", "/apis"] {
        let body = client.get_raw(&Target::raw(path), AGGREGATED).await?;
        let groups: Groups = serde_json::from_slice(&body)
            .map_err(|source| ClientError::Body { what: format!("discovery at {path}"), source })?;
        for group in groups.items {
            complete &= group.versions.iter().all(|v| v.freshness != "Stale");
            collect(group, &mut all);
        }
    }
    Ok((all, complete))
}

fn collect(group: Group, all: &mut Vec<Discovered>) {
    let name = group.metadata.name;
    let start = all.len();
    for version in group.versions {
        for found in version.resources {
            let known =
                all.get(start..).unwrap_or_default().iter().any(|d| d.resource.plural == found.resource);
            if known || found.response_kind.kind.is_empty() {
                continue;
            }
            let resource = ResourceRef {
                group: name.clone().into(),
                version: version.version.clone().into(),
                plural: found.resource.into(),
                kind: found.response_kind.kind.into(),
                namespaced: found.scope == "Namespaced",
            };
            all.push(Discovered { resource, verbs: found.verbs });
        }
    }
}
