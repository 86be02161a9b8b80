//! Discovery documents, made from the registry's rows: legacy lists and the aggregated form.
//!
//! The documents are rebuilt when rows change (a CustomResourceDefinition comes or goes) and shared by all readers.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use copepod_api::resource::version_rank;
use copepod_api::{ResourceDef, Scope, Subresource};
use copepod_schema::encode;
use serde_json::{Map, Value, json};

use crate::aggregator::Remote;

mod aggregated;

pub(crate) use aggregated::MEDIA_TYPE as AGGREGATED;

/// Groups in the order of upstream's aggregator (by priority); custom groups follow by name.
const ORDER: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "storagemigration.k8s.io",
    "lifecycle.k8s.io",
];

/// A group's versions, preferred first.
type Versions = Vec<(String, Served)>;

/// Who serves a version.
#[derive(Debug, Clone)]
enum Served {
    /// This server: its rows, sorted by plural.
    Here(Vec<Arc<ResourceDef>>),
    /// Another server.
    Elsewhere(Arc<Remote>),
}

/// The groups and versions of other servers.
pub(crate) type Remotes = BTreeMap<(String, String), Arc<Remote>>;

/// All documents of one state of the rows.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    /// By path: `/api/v1`, `/apis`, `/apis/apps`, `/apis/apps/v1`. As text, which takes a fraction of a tree's memory.
    documents: BTreeMap<String, Bytes>,
    /// The aggregated documents of `/api` and `/apis`, with their entity tags.
    aggregated: BTreeMap<&'static str, (Bytes, String)>,
}

impl Discovery {
    /// Builds the documents of `rows` and of what other servers serve.
    pub(crate) fn build(rows: &[Arc<ResourceDef>], remotes: &Remotes) -> Self {
        let groups = group(rows, remotes);
        let mut documents: BTreeMap<String, Bytes> = BTreeMap::new();
        let mut add =
            |path: String, document: &Value| drop(documents.insert(path, encode::document(document).into()));
        let mut listed = Vec::new();
        for (name, versions) in &groups {
            let prefix = if name.is_empty() { "/api".to_owned() } else { format!("/apis/{name}") };
            for (version, served) in versions {
                // Of another server's resources that server tells.
                if let Served::Here(rows) = served {
                    add(format!("{prefix}/{version}"), &resource_list(name, version, rows));
                }
            }
            if !name.is_empty() {
                let mut group = api_group(name, versions);
                listed.push(group.clone());
                group["kind"] = json!("APIGroup");
                group["apiVersion"] = json!("v1");
                add(prefix, &group);
            }
        }
        add("/apis".to_owned(), &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}));
        let (core, named): (Vec<_>, Vec<_>) = groups.into_iter().partition(|(name, _)| name.is_empty());
        let aggregated = [("/api", aggregated::document(&core)), ("/apis", aggregated::document(&named))];
        Self { documents, aggregated: aggregated.into() }
    }

    /// The legacy document at `path`; `/api` names the address clients reached.
    pub(crate) fn legacy(&self, path: &str, address: &str) -> Option<Bytes> {
        if path == "/api" {
            let by_client = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]);
            let document =
                json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": by_client});
            return Some(encode::document(&document).into());
        }
        self.documents.get(path).cloned()
    }

    /// The paths of all documents.
    pub(crate) fn paths(&self) -> impl Iterator<Item = String> {
        self.documents.keys().cloned()
    }

    /// The aggregated document of `/api` or `/apis` and its entity tag (without quotes).
    pub(crate) fn aggregated(&self, path: &str) -> Option<&(Bytes, String)> {
        self.aggregated.get(path)
    }
}

/// Sorts rows and other servers' versions into groups and versions.
fn group(rows: &[Arc<ResourceDef>], remotes: &Remotes) -> Vec<(String, Versions)> {
    let mut groups: BTreeMap<&str, BTreeMap<&str, Served>> = BTreeMap::new();
    for row in rows {
        let version = groups.entry(&row.group).or_default().entry(&row.version);
        if let Served::Here(list) = version.or_insert_with(|| Served::Here(Vec::new())) {
            list.push(Arc::clone(row));
        }
    }
    for ((group, version), remote) in remotes {
        groups.entry(group).or_default().insert(version, Served::Elsewhere(Arc::clone(remote)));
    }
    let mut out: Vec<(String, Versions)> = groups
        .into_iter()
        .map(|(name, versions)| {
            let mut versions: Versions =
                versions.into_iter().map(|(version, served)| (version.to_owned(), served.sorted())).collect();
            versions.sort_by(|a, b| version_rank(&b.0).cmp(&version_rank(&a.0)).then_with(|| a.0.cmp(&b.0)));
            (name.to_owned(), versions)
        })
        .collect();
    out.sort_by_key(|(name, versions)| {
        let known = ORDER.iter().position(|o| o == name).unwrap_or(ORDER.len());
        (known, std::cmp::Reverse(versions.iter().map(|(_, served)| served.priority()).max()))
    });
    out
}

impl Served {
    fn sorted(mut self) -> Self {
        if let Self::Here(rows) = &mut self {
            rows.sort_by(|a, b| a.plural.cmp(&b.plural));
        }
        self
    }

    /// The priority of a group that is not built in.
    fn priority(&self) -> i64 {
        match self {
            Self::Here(_) => 1000,
            Self::Elsewhere(remote) => remote.priority,
        }
    }
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn api_group(name: &str, versions: &Versions) -> Value {
    let entry = |version: &str| json!({"groupVersion": group_version(name, version), "version": version});
    let all: Vec<Value> = versions.iter().map(|(version, _)| entry(version)).collect();
    let preferred = all.first().cloned().unwrap_or_default();
    json!({"name": name, "versions": all, "preferredVersion": preferred})
}

fn resource_list(group: &str, version: &str, rows: &[Arc<ResourceDef>]) -> Value {
    let mut resources = Vec::new();
    for row in rows {
        // A resource that only has subresources (in a version) is not listed itself.
        if !row.verbs.0.is_empty() {
            resources.push(resource(row));
        }
        let mut subresources: Vec<&Subresource> = row.subresources.iter().collect();
        // Those of custom resources come as they are: status, scale.
        if !row.custom {
            subresources.sort_by(|a, b| a.name.cmp(&b.name));
        }
        resources.extend(subresources.into_iter().map(|sub| subresource(row, sub)));
    }
    let mut list = json!({
        "kind": "APIResourceList", "groupVersion": group_version(group, version), "resources": resources,
    });
    // That of the core group has never had one.
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    list
}

fn resource(row: &ResourceDef) -> Value {
    let mut map = Map::new();
    map.insert("name".to_owned(), json!(row.plural));
    map.insert("singularName".to_owned(), json!(row.singular));
    map.insert("namespaced".to_owned(), json!(row.scope == Scope::Namespaced));
    map.insert("kind".to_owned(), json!(row.kind));
    map.insert("verbs".to_owned(), json!(row.verbs));
    if !row.short_names.is_empty() {
        map.insert("shortNames".to_owned(), json!(row.short_names));
    }
    if !row.categories.is_empty() {
        map.insert("categories".to_owned(), json!(row.categories));
    }
    if !row.storage_version_hash.is_empty() {
        map.insert("storageVersionHash".to_owned(), json!(row.storage_version_hash));
    }
    Value::Object(map)
}

fn subresource(row: &ResourceDef, sub: &Subresource) -> Value {
    let mut map = Map::new();
    map.insert("name".to_owned(), json!(format!("{}/{}", row.plural, sub.name)));
    map.insert("singularName".to_owned(), json!(""));
    map.insert("namespaced".to_owned(), json!(row.scope == Scope::Namespaced));
    if let Some(kind) = sub.kind.as_ref().filter(|k| !(k.group == row.group && k.version == row.version)) {
        if !kind.group.is_empty() {
            map.insert("group".to_owned(), json!(kind.group));
        }
        if !kind.version.is_empty() {
            map.insert("version".to_owned(), json!(kind.version));
        }
    }
    map.insert("kind".to_owned(), json!(sub.kind.as_ref().map_or(&row.kind, |k| &k.kind)));
    map.insert("verbs".to_owned(), json!(sub.verbs));
    Value::Object(map)
}

#[cfg(test)]
mod tests;
