//! Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings.
//!
//! Policies are read again when a policy or binding changed, and compiled when a request first matches one: policies
//! that nothing matches, and servers without policies, pay nothing for expressions.

use copepod_api::{GroupVersionKind, GroupVersionResource};
use copepod_registry::{Attributes, Registry};
use serde_json::Value;

mod matching;
mod mutating;
mod mutator;
mod params;
pub(super) mod request;
mod source;
mod validating;
mod validator;

pub(super) use mutating::MutatingAdmissionPolicy;
pub(super) use validating::ValidatingAdmissionPolicy;

use super::{Deps, webhook};
use matching::Matching;
use params::{ParamKind, ParamRef};
use source::{Binding, Policy, Source};

/// The resource and kind that a policy sees a request as.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    resource: GroupVersionResource,
    kind: GroupVersionKind,
}

/// What keeps a policy from being asked; its failure policy decides.
#[derive(Debug)]
struct Misconfigured(String);

impl Misconfigured {
    fn policy(why: impl std::fmt::Display) -> Self {
        Self(format!("failed to configure policy: {why}"))
    }

    fn binding(why: impl std::fmt::Display) -> Self {
        Self(format!("failed to configure binding: {why}"))
    }
}

/// A request, as policies are asked about it.
struct Asked<'a> {
    deps: &'a Deps,
    attributes: &'a Attributes<'a>,
    object: Option<&'a Value>,
}

impl Asked<'_> {
    fn registry(&self) -> &Registry {
        &self.deps.reader.0
    }

    /// What a policy sees the request as; `None` when it does not concern it.
    async fn matches<E>(&self, policy: &Policy<E>) -> Result<Option<Seen>, Misconfigured> {
        let seen = policy.matching.seen(self).await.map_err(Misconfigured::policy)?;
        if let (Some(_), Some(params)) = (&seen, &policy.params) {
            params.row(self.registry())?;
        }
        Ok(seen)
    }

    /// The parameters a binding asks with, one `None` for none; empty when the binding does not apply.
    async fn parameters<E>(
        &self,
        policy: &Policy<E>,
        binding: &Binding,
    ) -> Result<Vec<Option<Value>>, Misconfigured> {
        if let Some(matching) = &binding.matching
            && matching.seen(self).await.map_err(Misconfigured::binding)?.is_none()
        {
            return Ok(Vec::new());
        }
        let namespace = self.attributes.namespace;
        let found =
            params::collect(self.registry(), policy.params.as_ref(), binding.params.as_ref(), namespace);
        found.await
    }

    /// The namespace of the object; `None` for objects without one, Namespaces included.
    async fn namespace(&self) -> Result<Option<Value>, copepod_api::ApiError> {
        let name = self.attributes.namespace;
        if name.is_empty() || self.attributes.resource.resource == "namespaces" {
            return Ok(None);
        }
        let found = self.deps.reader.get("", "namespaces", None, name).await;
        let missing =
            || copepod_api::ApiError::not_found(&copepod_api::GroupResource::new("", "namespaces"), name);
        found.map(|namespace| Some(request::exposed(&namespace))).ok_or_else(missing)
    }

    /// An object in the version that a policy sees.
    async fn view(
        &self,
        seen: &Seen,
        object: Option<&Value>,
    ) -> Result<Option<Value>, copepod_api::ApiError> {
        let Some(object) = object else { return Ok(None) };
        if seen.kind == *self.attributes.kind {
            return Ok(Some(object.clone()));
        }
        self.registry().present(self.attributes.resource, object, &seen.resource).await.map(Some)
    }
}

#[cfg(test)]
mod tests;
