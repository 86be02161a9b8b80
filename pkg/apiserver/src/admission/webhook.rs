//! Admission webhooks: MutatingWebhookConfiguration and ValidatingWebhookConfiguration objects, called as upstream's
//! `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook` plugins call them.
//!
//! Configurations are read again when one of them changed. A request that no rule matches costs a look at the rules.

use std::sync::Arc;

use copepod_api::{ApiError, ApiResult, GroupVersionKind, GroupVersionResource};
use copepod_registry::{Attributes, Registry};
use serde_json::Value;

use crate::admission::Deps;
use crate::authz::Authorizer;
use crate::outbound::Outbound;
use crate::reader::Reader;

mod conditions;
mod hook;
mod mutating;
mod review;
mod rules;
mod source;
mod validating;

pub(super) use mutating::MutatingAdmissionWebhook;
pub(super) use validating::ValidatingAdmissionWebhook;

pub(super) use rules::Rule;

use hook::Hook;
use source::Source;

/// What both plugins have.
#[derive(Debug)]
struct Shared {
    reader: Reader,
    source: Source,
    outbound: Arc<Outbound>,
    authorizer: Arc<Authorizer>,
}

/// A webhook that is to be called, with the resource and kind it is called about.
#[derive(Debug, Clone)]
struct Invocation {
    resource: GroupVersionResource,
    kind: GroupVersionKind,
}

/// Why a call did not let a request pass.
#[derive(Debug)]
enum Failure {
    /// The webhook could not be asked; the failure policy decides.
    Calling(String),
    /// It said no, or the server cannot go on.
    Final(ApiError),
}

/// The object and the old one in the versions that webhooks ask for.
#[derive(Debug, Clone, Default)]
struct Views {
    object: Value,
    old: Value,
}

/// The request's own resource and kind; the kind is that of clients, not the pipeline's.
pub(super) fn requested(
    registry: &Registry,
    attributes: &Attributes<'_>,
) -> (GroupVersionResource, GroupVersionKind) {
    let kind = match registry.kinds(attributes.resource) {
        Some((working, served)) if working == *attributes.kind => served,
        _ => attributes.kind.clone(),
    };
    (attributes.resource.clone(), kind)
}

/// Objects that decide about admission are never sent to webhooks: a broken webhook could not be repaired.
pub(super) fn exempt(attributes: &Attributes<'_>) -> bool {
    attributes.resource.group == "admissionregistration.k8s.io"
        && matches!(
            attributes.kind.kind.as_str(),
            "ValidatingWebhookConfiguration"
                | "MutatingWebhookConfiguration"
                | "ValidatingAdmissionPolicy"
                | "ValidatingAdmissionPolicyBinding"
                | "MutatingAdmissionPolicy"
                | "MutatingAdmissionPolicyBinding"
        )
}

impl Shared {
    /// What a plugin with the configurations `resource` needs.
    fn new(resource: &'static str, deps: &Deps) -> Self {
        Self {
            reader: deps.reader.clone(),
            source: Source::new(resource),
            outbound: Arc::clone(&deps.outbound),
            authorizer: Arc::clone(&deps.authorizer),
        }
    }

    fn registry(&self) -> &Registry {
        &self.reader.0
    }

    /// Whether and about what a webhook is to be called.
    async fn invocation(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> ApiResult<Option<Invocation>> {
        let in_namespace = rules::namespace_matches(&self.reader, hook, attributes, object).await;
        if matches!(in_namespace, Ok(false)) || !rules::object_matches(hook, object, attributes.old) {
            return Ok(None);
        }
        let (resource, kind) = requested(self.registry(), attributes);
        let found = if hook.rules.iter().any(|rule| rule.matches(attributes, &resource)) {
            Some(Invocation { resource, kind })
        } else if hook.equivalent {
            let others = self.registry().equivalents(&resource, attributes.subresource);
            let mut pairs = hook.rules.iter().flat_map(|rule| others.iter().map(move |other| (rule, other)));
            let found = pairs.find(|(rule, (resource, _))| rule.matches(attributes, resource));
            found.map(|(_, (resource, kind))| Invocation { resource: resource.clone(), kind: kind.clone() })
        } else {
            None
        };
        // What is wrong with the namespace matters only to webhooks that would be called.
        if found.is_some() {
            in_namespace?;
        }
        Ok(found)
    }

    /// An object of the request as the webhook wants to see it.
    async fn view(
        &self,
        attributes: &Attributes<'_>,
        invocation: &Invocation,
        object: Option<&Value>,
    ) -> ApiResult<Value> {
        let Some(object) = object else { return Ok(Value::Null) };
        if invocation.kind == *attributes.kind {
            return Ok(object.clone());
        }
        self.registry().present(attributes.resource, object, &invocation.resource).await
    }

    async fn views(
        &self,
        attributes: &Attributes<'_>,
        invocation: &Invocation,
        object: Option<&Value>,
    ) -> ApiResult<Views> {
        Ok(Views {
            object: self.view(attributes, invocation, object).await?,
            old: self.view(attributes, invocation, attributes.old).await?,
        })
    }

    /// Calls a webhook; its answer, when it allowed the request.
    async fn call(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        invocation: &Invocation,
        views: &Views,
        mutating: bool,
    ) -> Result<review::Answer, Failure> {
        if attributes.dry_run && !hook.dry_run {
            let name = copepod_api::field::quote(&hook.name);
            let why = format!("admission webhook {name} does not support dry run");
            return Err(Failure::Final(ApiError::bad_request(why)));
        }
        let (_, request_kind) = requested(self.registry(), attributes);
        let review = review::request(hook, attributes, invocation, &request_kind, views);
        let (uid, review) =
            review.map_err(|why| Failure::Calling(format!("could not create admission objects: {why}")))?;
        let endpoint = hook
            .endpoint
            .as_ref()
            .map_err(|why| Failure::Calling(format!("could not get REST client: {why}")))?;
        let answer = self
            .outbound
            .post(endpoint, hook.timeout, review.to_string())
            .await
            .map_err(|why| Failure::Calling(format!("failed to call webhook: {why}")))?;
        let answer = review::read(hook.version(), &uid, mutating, &answer)
            .map_err(|why| Failure::Calling(format!("received invalid webhook response: {why}")))?;
        for warning in &answer.warnings {
            attributes.warnings.add(warning.as_str());
        }
        if answer.allowed {
            Ok(answer)
        } else {
            Err(Failure::Final(review::refusal(&hook.name, answer.result)))
        }
    }
}

/// The error of a webhook that could not be asked and may not be ignored.
fn closed(hook: &Hook, why: &str) -> ApiError {
    tracing::warn!(webhook = hook.name, why, "failed calling webhook, failing closed");
    ApiError::internal(failed(hook, why))
}

/// Notes a webhook that could not be asked and is ignored.
fn open(hook: &Hook, why: &str) {
    tracing::warn!(webhook = hook.name, why, "failed calling webhook, failing open");
}

fn failed(hook: &Hook, why: &str) -> String {
    format!("failed calling webhook {}: {why}", copepod_api::field::quote(&hook.name))
}

#[cfg(test)]
mod tests;
