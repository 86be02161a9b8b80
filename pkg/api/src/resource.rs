//! One row per resource: everything the API server must know about a kind that is not behaviour.
//!
//! Routes, discovery, OpenAPI, Tables, field validation, patches, server-side apply and RBAC read the row.
//! A CustomResourceDefinition becomes a row at run time.

use serde::{Deserialize, Serialize};

use crate::gvk::{GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};

/// Whether objects live in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Scope {
    /// Objects live in a namespace.
    #[default]
    Namespaced,
    /// Objects belong to the cluster as a whole.
    Cluster,
}

/// An API verb, as discovery and RBAC name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// POST of one object.
    Create,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
    /// GET of one object.
    Get,
    /// GET of a collection.
    List,
    /// PATCH of one object.
    Patch,
    /// PUT of one object.
    Update,
    /// A stream of changes.
    Watch,
}

impl Verb {
    /// The verb as discovery and RBAC spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }
}

/// The verbs a resource or subresource serves, in discovery's (alphabetical) order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Verbs(pub Vec<Verb>);

impl Verbs {
    /// Whether `verb` is served.
    #[must_use]
    pub fn has(&self, verb: Verb) -> bool {
        self.0.contains(&verb)
    }
}

/// A subresource of a resource, such as `status`, `scale`, `log`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Subresource {
    /// The path element, such as `status`.
    pub name: String,
    /// The kind that travels in bodies, when it is not the parent's: `autoscaling/v1 Scale`, `policy/v1 Eviction`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<GroupVersionKind>,
    /// The verbs served.
    pub verbs: Verbs,
}

/// One printer column of a Table (`kubectl get`), for kinds whose columns are JSONPaths (custom resources).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct PrinterColumn {
    /// The heading.
    pub name: String,
    /// The OpenAPI type of the cells: `string`, `integer`, `date`, …
    #[serde(rename = "type")]
    pub type_: String,
    /// The OpenAPI format, `name` marks the key column.
    pub format: String,
    /// What the column shows.
    pub description: String,
    /// 0 is always shown, above 0 in wide output only.
    pub priority: i32,
    /// The JSONPath below the object, such as `.spec.replicas`.
    pub json_path: String,
}

/// One resource in one version: the row that everything generic reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceDef {
    /// The group; empty for core.
    pub group: String,
    /// The served version of this row.
    pub version: String,
    /// The kind of the objects.
    pub kind: String,
    /// The kind of lists; `<Kind>List` unless a CRD says otherwise.
    pub list_kind: String,
    /// The plural, as in paths.
    pub plural: String,
    /// The singular, as discovery shows it.
    pub singular: String,
    /// Short names, such as `po`.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Namespaced or cluster-wide.
    pub scope: Scope,
    /// The verbs of the resource itself. A resource with `create` alone is virtual: a review, never stored.
    pub verbs: Verbs,
    /// The subresources.
    pub subresources: Vec<Subresource>,
    /// The hash of the storage version that legacy discovery shows; empty when it shows none.
    pub storage_version_hash: String,
    /// The prefix of etcd keys below `/registry/`, such as `pods`, `minions`, `services/specs`.
    pub storage_prefix: String,
    /// The version objects are stored in; equals `version` for all but multi-version kinds.
    pub storage_version: String,
    /// The name of the root schema, such as `io.k8s.api.core.v1.Pod`.
    pub schema: String,
    /// The protobuf message, such as `k8s.io.api.core.v1.Pod`; empty for custom resources.
    pub proto: String,
    /// Field selectors beyond `metadata.name` and `metadata.namespace`: label → JSON path.
    pub selectable_fields: Vec<(String, String)>,
    /// Printer columns of a custom resource; built-in kinds have code for theirs.
    pub columns: Vec<PrinterColumn>,
    /// Whether this row came from a CustomResourceDefinition.
    pub custom: bool,
    /// Whether a deletion is answered with the object instead of a `Status`, as the published documents say.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub returns_deleted: bool,
    /// The warning that every request for it gets; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deprecation: String,
}

/// Kubernetes' order of versions: stable before beta before alpha, higher numbers first, other words last. Higher is
/// better.
#[must_use]
pub fn version_rank(version: &str) -> (u8, u32, u32) {
    let parse = || -> Option<(u8, u32, u32)> {
        let rest = version.strip_prefix('v')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, stage) = rest.split_at_checked(end)?;
        let major = major.parse().ok()?;
        match (stage, stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
            ("", ..) => Some((3, major, 0)),
            (_, Some(minor), _) => Some((2, major, minor.parse().ok()?)),
            (_, _, Some(minor)) => Some((1, major, minor.parse().ok()?)),
            _ => None,
        }
    };
    parse().unwrap_or_default()
}

impl ResourceDef {
    /// Group, version and kind.
    #[must_use]
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(&self.group, &self.version, &self.kind)
    }

    /// Group, version and plural.
    #[must_use]
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(&self.group, &self.version, &self.plural)
    }

    /// Group and version.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// Group and plural, as error texts name the resource.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// Whether objects live in a namespace.
    #[must_use]
    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// The subresource called `name`.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// The key of an object in etcd, upstream's layout: `/registry/<prefix>/[<namespace>/]<name>`.
    #[must_use]
    pub fn key(&self, namespace: Option<&str>, name: &str) -> String {
        match namespace {
            Some(ns) if self.namespaced() => format!("/registry/{}/{ns}/{name}", self.storage_prefix),
            _ => format!("/registry/{}/{name}", self.storage_prefix),
        }
    }

    /// The key prefix of all objects, or of one namespace's; ends with a slash.
    #[must_use]
    pub fn key_prefix(&self, namespace: Option<&str>) -> String {
        match namespace {
            Some(ns) if self.namespaced() => format!("/registry/{}/{ns}/", self.storage_prefix),
            _ => format!("/registry/{}/", self.storage_prefix),
        }
    }
}
