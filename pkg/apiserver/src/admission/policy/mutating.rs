//! `MutatingAdmissionPolicy`: policies that change an object, one after the other.

use std::sync::Arc;

use async_trait::async_trait;
use copepod_api::{ApiError, ApiResult, GroupVersionResource, meta, status::StatusCause};
use copepod_cel::admission::Input;
use copepod_registry::{Admission, Attributes, Reinvocation, Round};
use serde_json::Value;

use super::{Asked, Deps, Misconfigured, Policy, Seen, Source, mutator::Mutator, request, webhook};
use crate::admission::forbid;

const NAME: &str = "MutatingAdmissionPolicy";

/// The plugin.
#[derive(Debug)]
pub(in crate::admission) struct MutatingAdmissionPolicy {
    deps: Deps,
    source: Source<Mutator>,
}

/// A policy, by a binding, with a parameter.
struct Invocation {
    policy: Arc<Policy<Mutator>>,
    binding: String,
    seen: Seen,
    params: Option<Value>,
}

impl Invocation {
    /// What tells it from others.
    fn key(&self) -> String {
        let param = self.params.as_ref().map(|p| format!("{}/{}", meta::namespace(p), meta::name(p)));
        format!("{}/{}/{}", self.policy.name, self.binding, param.unwrap_or_default())
    }
}

/// Why a policy could not do its work.
struct Failed {
    policy: String,
    binding: Option<String>,
    message: String,
    invalid: bool,
}

impl Failed {
    fn text(&self) -> String {
        let (policy, why) = (&self.policy, &self.message);
        match &self.binding {
            Some(binding) => format!("policy '{policy}' with binding '{binding}' denied request: {why}"),
            None => format!("policy {} denied request: {why}", copepod_api::field::quote(policy)),
        }
    }
}

impl MutatingAdmissionPolicy {
    /// A plugin that reads policies and parameters from the watch cache.
    pub(in crate::admission) fn new(deps: Deps) -> Self {
        Self { deps, source: Source::new("mutatingadmissionpolicies", "mutatingadmissionpolicybindings") }
    }

    async fn run(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        let policies = self.source.policies(&self.deps.reader).await;
        if policies.is_empty() {
            return Ok(());
        }
        let mut failed = Vec::new();
        let invocations = self.invocations(&policies, attributes, object, &mut failed).await;
        if !invocations.is_empty() {
            self.invoke_all(&invocations, attributes, object, &mut failed).await?;
        }
        match failed.first() {
            Some(_) => Err(refusal(attributes, object, &failed)),
            None => Ok(()),
        }
    }

    async fn invocations(
        &self,
        policies: &[Arc<Policy<Mutator>>],
        attributes: &Attributes<'_>,
        object: &Value,
        failed: &mut Vec<Failed>,
    ) -> Vec<Invocation> {
        let asked = Asked { deps: &self.deps, attributes, object: Some(object) };
        let mut invocations = Vec::new();
        for policy in policies {
            let seen = match asked.matches(policy).await {
                Ok(Some(seen)) => seen,
                Ok(None) => continue,
                Err(why) => {
                    failed.extend(misconfigured(policy, None, why));
                    continue;
                }
            };
            for binding in &policy.bindings {
                match asked.parameters(policy, binding).await {
                    Ok(params) => invocations.extend(params.into_iter().map(|params| Invocation {
                        policy: Arc::clone(policy),
                        binding: binding.name.clone(),
                        seen: seen.clone(),
                        params,
                    })),
                    Err(why) => failed.extend(misconfigured(policy, Some(&binding.name), why)),
                }
            }
        }
        invocations
    }

    async fn invoke_all(
        &self,
        invocations: &[Invocation],
        attributes: &Attributes<'_>,
        object: &mut Value,
        failed: &mut Vec<Failed>,
    ) -> ApiResult<()> {
        let fallback = Reinvocation::default();
        let round = attributes.reinvocation.unwrap_or(&fallback).round(NAME);
        round.enter(object);
        let before = object.clone();
        for invocation in invocations {
            if let Err(why) = self.invoke(invocation, attributes, object, round).await? {
                failed.extend((!invocation.policy.ignore).then(|| Failed {
                    policy: invocation.policy.name.clone(),
                    binding: Some(invocation.binding.clone()),
                    message: why,
                    invalid: true,
                }));
            }
        }
        if *object != before {
            // Also what ran last may see another object in the second round.
            round.require_previous();
        }
        round.leave(object);
        Ok(())
    }

    /// Runs one invocation; the inner error is the policy's.
    async fn invoke(
        &self,
        invocation: &Invocation,
        attributes: &Attributes<'_>,
        object: &mut Value,
        round: Round<'_>,
    ) -> ApiResult<Result<(), String>> {
        let asked = Asked { deps: &self.deps, attributes, object: Some(object) };
        let namespace = asked.namespace().await?;
        let old = asked.view(&invocation.seen, attributes.old).await?;
        let Some(mut current) = asked.view(&invocation.seen, Some(object)).await? else { return Ok(Ok(())) };
        let (resource, kind) = webhook::requested(asked.registry(), attributes);
        let request = request::value(attributes, &invocation.seen, &Seen { resource, kind });
        let answers = request::Answers::new(&self.deps.authorizer, attributes.user);
        let input = Input {
            object: None,
            old_object: old.as_ref(),
            request: &request,
            params: invocation.params.as_ref(),
            namespace: namespace.as_ref(),
            authorizer: Some(&answers),
        };
        let mutator = invocation.policy.compiled(Mutator::compile);
        match mutator.applies(&Input { object: Some(&current), ..input }) {
            Ok(true) => {}
            Ok(false) => return Ok(Ok(())),
            Err(why) => return Ok(Err(why)),
        }
        let key = invocation.key();
        // The second round runs nothing for the first time.
        if round.skips(&key) {
            return Ok(Ok(()));
        }
        let before = current.clone();
        let mut outcome = Ok(());
        for mutation in &mutator.mutations {
            let (registry, Seen { resource, kind }) = (&self.deps.reader.0, &invocation.seen);
            let Some(schema) = registry.schema(resource, kind) else {
                outcome = Err(format!("{}, Kind={} has no schema", kind.api_version(), kind.kind));
                break;
            };
            match mutator.mutate(mutation, &Input { object: Some(&current), ..input }, schema.root()) {
                // Objects of subresources (Scale) have no defaults.
                Ok(new) if registry.row(resource).is_none_or(|row| row.gvk() != *kind) => current = new,
                Ok(new) => current = registry.settle(resource, &new)?,
                Err(why) => outcome = Err(why),
            }
        }
        if current != before {
            *object = self.taken_back(attributes.resource, current, invocation, attributes).await?;
            round.changed();
        }
        if mutator.again {
            round.invoked(&key);
        }
        Ok(outcome)
    }

    /// The object in the pipeline's version.
    async fn taken_back(
        &self,
        resource: &GroupVersionResource,
        object: Value,
        invocation: &Invocation,
        attributes: &Attributes<'_>,
    ) -> ApiResult<Value> {
        if invocation.seen.kind == *attributes.kind {
            return Ok(object);
        }
        self.deps.reader.0.absorb(resource, object, &invocation.seen.resource).await
    }
}

fn misconfigured(policy: &Policy<Mutator>, binding: Option<&str>, why: Misconfigured) -> Option<Failed> {
    (!policy.ignore).then(|| Failed {
        policy: policy.name.clone(),
        binding: binding.map(str::to_owned),
        message: why.0,
        invalid: false,
    })
}

fn refusal(attributes: &Attributes<'_>, object: &Value, failed: &[Failed]) -> ApiError {
    let mut error = forbid(attributes, Some(object), "admission request denied by policy");
    let status = error.status_mut();
    if let Some(first) = failed.first() {
        status.message = first.text();
        if first.invalid {
            status.reason = copepod_api::Reason::Invalid.parts().0.to_owned();
        }
    }
    let causes = failed.iter().map(|one| StatusCause { message: one.text(), ..StatusCause::default() });
    status.details.get_or_insert_default().causes.extend(causes);
    error
}

#[async_trait]
impl Admission for MutatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        if webhook::exempt(attributes) { Ok(()) } else { self.run(attributes, object).await }
    }
}
