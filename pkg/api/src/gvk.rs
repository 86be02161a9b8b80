//! Group, version, kind and resource names.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An API group and version; the core group is the empty string.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub struct GroupVersion {
    /// The group, such as `apps`; empty for core.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
}

impl GroupVersion {
    /// A group version from its parts.
    #[must_use]
    pub fn new(group: &str, version: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned() }
    }

    /// Parses an `apiVersion`; `None` when it has more than one slash.
    #[must_use]
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None => Some(Self::new("", api_version)),
            Some((_, version)) if version.contains('/') => None,
            Some((group, version)) => Some(Self::new(group, version)),
        }
    }
}

/// Formats as an `apiVersion`: `v1`, `apps/v1`.
impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// A fully qualified kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub struct GroupVersionKind {
    /// The group; empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind, such as `Pod`.
    pub kind: String,
}

impl GroupVersionKind {
    /// A kind from its parts.
    #[must_use]
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    /// The group and version alone.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// The `apiVersion` of objects of this kind.
    #[must_use]
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    /// Kind and group as in error texts: `Pod`, `Deployment.apps`.
    #[must_use]
    pub fn qualified_kind(&self) -> String {
        qualified(&self.kind, &self.group)
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.group_version(), self.kind)
    }
}

/// A fully qualified resource (plural).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub struct GroupVersionResource {
    /// The group; empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural, such as `pods`.
    pub resource: String,
}

impl GroupVersionResource {
    /// A resource from its parts.
    #[must_use]
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Self { group: group.to_owned(), version: version.to_owned(), resource: resource.to_owned() }
    }

    /// The group and resource alone.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.resource)
    }
}

/// A resource without its version, as error texts and storage name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub struct GroupResource {
    /// The group; empty for core.
    pub group: String,
    /// The plural, such as `pods`.
    pub resource: String,
}

impl GroupResource {
    /// A group resource from its parts.
    #[must_use]
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.to_owned(), resource: resource.to_owned() }
    }
}

/// `pods`, `deployments.apps`.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&qualified(&self.resource, &self.group))
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}
