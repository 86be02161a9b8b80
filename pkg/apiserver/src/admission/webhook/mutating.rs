//! `MutatingAdmissionWebhook`: matching webhooks one after the other, each seeing what the one before has changed.

use async_trait::async_trait;
use copepod_api::{ApiError, ApiResult, GroupVersionResource};
use copepod_registry::{Admission, Attributes, Reinvocation, Round};
use serde_json::Value;

use super::{Failure, Hook, Invocation, Shared, Views, closed, exempt, open, review};
use crate::admission::Deps;

const NAME: &str = "MutatingAdmissionWebhook";

/// The plugin.
#[derive(Debug)]
pub(in crate::admission) struct MutatingAdmissionWebhook(Shared);

impl MutatingAdmissionWebhook {
    /// A plugin with what all plugins share.
    pub(in crate::admission) fn new(deps: &Deps) -> Self {
        Self(Shared::new("mutatingwebhookconfigurations", deps))
    }

    async fn run(&self, attributes: &Attributes<'_>, mut object: Option<&mut Value>) -> ApiResult<()> {
        let hooks = self.0.source.hooks(&self.0.reader).await;
        if hooks.is_empty() {
            return Ok(());
        }
        let fallback = Reinvocation::default();
        let round = attributes.reinvocation.unwrap_or(&fallback).round(NAME);
        if let Some(object) = object.as_deref() {
            round.enter(object);
        }
        for hook in hooks.iter() {
            self.one(hook, attributes, object.as_deref_mut(), round).await?;
        }
        if let Some(object) = object {
            round.leave(object);
        }
        Ok(())
    }

    async fn one(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
        round: Round<'_>,
    ) -> ApiResult<()> {
        let Some(invocation) = self.0.invocation(hook, attributes, object.as_deref()).await? else {
            return Ok(());
        };
        let views =
            self.0.views(attributes, &invocation, object.as_deref()).await.map_err(ApiError::internal)?;
        if !self.0.conditions_hold(hook, attributes, &invocation, &views)? || round.skips(&hook.uid) {
            return Ok(());
        }
        let answer = self.0.call(hook, attributes, &invocation, &views, true).await;
        let result = match answer {
            Ok(answer) => self.patch(hook, attributes, &invocation, &views, &answer).await,
            Err(failure) => Err(failure),
        };
        if matches!(result, Ok(Some(_))) {
            round.changed();
        }
        if hook.reinvoke {
            round.invoked(&hook.uid);
        }
        match (result, object) {
            (Ok(Some(new)), Some(object)) => {
                *object = new;
                Ok(())
            }
            (Ok(_), _) => Ok(()),
            (Err(Failure::Calling(why)), _) if hook.ignore => {
                open(hook, &why);
                Ok(())
            }
            (Err(Failure::Calling(why)), _) => Err(closed(hook, &why)),
            (Err(Failure::Final(error)), _) => Err(error),
        }
    }

    /// The object as the webhook's patch makes it, in the pipeline's version; `None` when nothing changed.
    async fn patch(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        invocation: &Invocation,
        views: &Views,
        answer: &review::Answer,
    ) -> Result<Option<Value>, Failure> {
        if answer.patch.is_empty() {
            return Ok(None);
        }
        let operations: Vec<Value> = serde_json::from_slice(&answer.patch).map_err(|why| {
            Failure::Calling(format!("received undecodable patch in webhook response: {why}"))
        })?;
        if operations.is_empty() {
            return Ok(None);
        }
        let internal = |why: String| Failure::Final(ApiError::internal(why));
        if views.object.is_null() {
            return Err(internal(format!(
                "admission webhook {} attempted to modify the object, which is not supported for this operation",
                copepod_api::field::quote(&hook.name)
            )));
        }
        let mut patched = views.object.clone();
        copepod_schema::patch::json(&mut patched, &answer.patch).map_err(|e| internal(e.to_string()))?;
        let own = registered(&self.0, attributes, invocation);
        let Some(target) = own else {
            return Ok(Some(patched).filter(|new| *new != views.object));
        };
        let registry = self.0.registry();
        let settled = registry.settle(target, &patched).map_err(|e| internal(e.status().message.clone()))?;
        if settled == views.object {
            return Ok(None);
        }
        let absorbed = registry.absorb(attributes.resource, settled, target).await;
        absorbed.map(Some).map_err(|e| internal(e.status().message.clone()))
    }
}

/// The resource whose schema the object follows; `None` for objects of other kinds (Scale, options of a connection).
fn registered<'a>(
    shared: &Shared,
    attributes: &Attributes<'_>,
    invocation: &'a Invocation,
) -> Option<&'a GroupVersionResource> {
    let (working, _) = shared.registry().kinds(attributes.resource)?;
    (working == *attributes.kind).then_some(&invocation.resource)
}

#[async_trait]
impl Admission for MutatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        if exempt(attributes) { Ok(()) } else { self.run(attributes, Some(object)).await }
    }

    async fn admit_delete(&self, attributes: &Attributes<'_>) -> ApiResult<()> {
        if exempt(attributes) { Ok(()) } else { self.run(attributes, None).await }
    }
}
