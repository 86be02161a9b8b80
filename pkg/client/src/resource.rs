//! Which resource a request is about, and the URL paths that follow from it.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// One resource of the API: where it lives and what its objects are called. Scope and names are data, so one
/// code path serves built-in kinds and those found by discovery.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceRef {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// API version, such as `v1`.
    pub version: Cow<'static, str>,
    /// Plural name used in URLs, such as `pods`.
    pub plural: Cow<'static, str>,
    /// Kind of one object, such as `Pod`.
    pub kind: Cow<'static, str>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
}

impl ResourceRef {
    /// A namespaced resource known at compile time.
    #[must_use]
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self::known(group, version, plural, kind, true)
    }

    /// A cluster-scoped resource known at compile time.
    #[must_use]
    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self::known(group, version, plural, kind, false)
    }

    const fn known(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
        namespaced: bool,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced,
        }
    }

    /// `group/version`, or the bare version for the core group: the value of `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The collection in `namespace`; an empty namespace means all of them (or the cluster scope).
    #[must_use]
    pub fn collection(&self, namespace: &str) -> Target {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if self.namespaced && !namespace.is_empty() {
            path.push_str("/namespaces/");
            push_segment(&mut path, namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        Target { path }
    }

    /// One object; `namespace` is ignored for cluster-scoped resources.
    #[must_use]
    pub fn object(&self, namespace: &str, name: &str) -> Target {
        self.collection(namespace).segment(name)
    }
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// The URL path of a collection, an object or a subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    path: String,
}

impl Target {
    /// A raw path such as `/version`; it is sent as given.
    #[must_use]
    pub fn raw(path: impl Into<String>) -> Self {
        Self { path: path.into() }
    }

    /// The subresource `name` (`status`, `scale`, `binding`, `eviction`, `token`, `log`, …) of an object.
    #[must_use]
    pub fn subresource(self, name: &str) -> Self {
        self.segment(name)
    }

    /// The path, percent-encoded.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    fn segment(mut self, text: &str) -> Self {
        self.path.push('/');
        push_segment(&mut self.path, text);
        self
    }
}

/// Query parameters, percent-encoded as they are added; empty values are left out.
#[derive(Debug, Default, Clone)]
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn set(mut self, key: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            self.0.push_str(key);
            self.0.push('=');
            push_segment(&mut self.0, value);
        }
        self
    }

    pub(crate) fn flag(self, key: &str, on: bool) -> Self {
        self.set(key, if on { "true" } else { "" })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Appends `text`, escaping everything but RFC 3986's unreserved characters and the colon RBAC names carry.
fn push_segment(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a String cannot fail");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{DEPLOYMENTS, NODES, PODS};

    #[test]
    fn paths_follow_group_scope_and_subresource() {
        assert_eq!(PODS.collection("").path(), "/api/v1/pods");
        assert_eq!(
            PODS.object("ns", "a").subresource("status").path(),
            "/api/v1/namespaces/ns/pods/a/status"
        );
        assert_eq!(NODES.object("ignored", "n1").path(), "/api/v1/nodes/n1");
        assert_eq!(
            DEPLOYMENTS.object("x", "d").subresource("scale").path(),
            "/apis/apps/v1/namespaces/x/deployments/d/scale"
        );
    }

    #[test]
    fn names_and_values_cannot_break_out_of_their_place() {
        assert_eq!(NODES.object("", "../a?b").path(), "/api/v1/nodes/..%2Fa%3Fb");
        let query = Query::default().set("labelSelector", "a in (b,c)").set("limit", "").flag("watch", true);
        assert_eq!(query.as_str(), "?labelSelector=a%20in%20%28b%2Cc%29&watch=true");
    }
}
