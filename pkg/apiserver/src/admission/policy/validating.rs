//! `ValidatingAdmissionPolicy`: policies that let a request pass or refuse it, after everything that changes it.

use async_trait::async_trait;
use copepod_api::{ApiError, ApiResult, status::StatusCause};
use copepod_cel::admission::Input;
use copepod_registry::{Admission, Attributes};
use serde_json::Value;

use super::{
    Asked, Binding, Deps, Misconfigured, Policy, Seen, Source, request,
    validator::{Denial, Validator, Verdict},
    webhook,
};
use crate::admission::forbid;

/// The plugin.
#[derive(Debug)]
pub(in crate::admission) struct ValidatingAdmissionPolicy {
    deps: Deps,
    source: Source<Validator>,
}

/// A refusal, the policy's and perhaps a binding's.
struct Denied<'a> {
    policy: &'a Policy<Validator>,
    binding: Option<&'a Binding>,
    denial: Denial,
}

impl Denied<'_> {
    fn message(&self) -> String {
        let (policy, why) = (&self.policy.name, &self.denial.message);
        match self.binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{}' denied request: {why}",
                binding.name
            ),
            None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {why}"),
        }
    }
}

impl ValidatingAdmissionPolicy {
    /// A plugin that reads policies and parameters from the watch cache.
    pub(in crate::admission) fn new(deps: Deps) -> Self {
        let source = Source::new("validatingadmissionpolicies", "validatingadmissionpolicybindings");
        Self { deps, source }
    }

    async fn run(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let policies = self.source.policies(&self.deps.reader).await;
        let asked = Asked { deps: &self.deps, attributes, object };
        let mut denied: Vec<Denied<'_>> = Vec::new();
        for policy in policies.iter() {
            match asked.matches(policy).await {
                Ok(None) => {}
                Ok(Some(seen)) => self.policy(&asked, policy, &seen, &mut denied).await?,
                Err(why) => denied.extend(misconfigured(policy, None, why)),
            }
        }
        match denied.first() {
            Some(first) => Err(refusal(attributes, object, first)),
            None => Ok(()),
        }
    }

    async fn policy<'p>(
        &self,
        asked: &Asked<'_>,
        policy: &'p Policy<Validator>,
        seen: &Seen,
        denied: &mut Vec<Denied<'p>>,
    ) -> ApiResult<()> {
        for binding in &policy.bindings {
            let params = match asked.parameters(policy, binding).await {
                Ok(params) => params,
                Err(why) => {
                    denied.extend(misconfigured(policy, Some(binding), why));
                    continue;
                }
            };
            if params.is_empty() {
                continue;
            }
            let namespace = asked.namespace().await?;
            let object = asked.view(seen, asked.object).await?;
            let old = asked.view(seen, asked.attributes.old).await?;
            let request = request::value(asked.attributes, seen, &own(asked));
            let answers = request::Answers::new(&self.deps.authorizer, asked.attributes.user);
            for param in &params {
                let input = Input {
                    object: object.as_ref(),
                    old_object: old.as_ref(),
                    request: &request,
                    params: param.as_ref(),
                    namespace: namespace.as_ref(),
                    authorizer: Some(&answers),
                };
                let verdict = policy.compiled(Validator::compile).validate(&input);
                act(asked.attributes, policy, binding, verdict, denied);
            }
        }
        Ok(())
    }
}

fn own(asked: &Asked<'_>) -> Seen {
    let (resource, kind) = webhook::requested(asked.registry(), asked.attributes);
    Seen { resource, kind }
}

/// What a policy that cannot be asked means.
fn misconfigured<'p>(
    policy: &'p Policy<Validator>,
    binding: Option<&'p Binding>,
    why: Misconfigured,
) -> Option<Denied<'p>> {
    let denial = Denial { message: why.0, reason: copepod_api::Reason::Invalid };
    (!policy.ignore).then_some(Denied { policy, binding, denial })
}

/// Does with a verdict what the binding says.
fn act<'p>(
    attributes: &Attributes<'_>,
    policy: &'p Policy<Validator>,
    binding: &'p Binding,
    verdict: Verdict,
    denied: &mut Vec<Denied<'p>>,
) {
    for denial in verdict.denials {
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => denied.push(Denied { policy, binding: Some(binding), denial: denial.clone() }),
                "Warn" => attributes.warnings.add(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    policy.name, binding.name, denial.message
                )),
                // There is no audit log; the server's own log says it.
                _ => tracing::info!(
                    policy = policy.name,
                    binding = binding.name,
                    message = denial.message,
                    "validation failure"
                ),
            }
        }
    }
    for (key, value) in verdict.annotations {
        tracing::info!(policy = policy.name, key, value, "audit annotation");
    }
    let errors = verdict.errors.into_iter();
    denied.extend(errors.map(|denial| Denied { policy, binding: Some(binding), denial }));
}

fn refusal(attributes: &Attributes<'_>, object: Option<&Value>, denied: &Denied<'_>) -> ApiError {
    let message = denied.message();
    let mut error = forbid(attributes, object.or(attributes.old), &message);
    let (reason, code) = denied.denial.reason.parts();
    let status = error.status_mut();
    status.reason = reason.to_owned();
    status.code = code.into();
    let details = status.details.get_or_insert_default();
    details.causes.push(StatusCause { message, ..StatusCause::default() });
    error
}

#[async_trait]
impl Admission for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        if webhook::exempt(attributes) { Ok(()) } else { self.run(attributes, object).await }
    }
}
