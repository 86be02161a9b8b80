//! `ValidatingAdmissionWebhook`: all matching webhooks at once, after everything that changes the object.

use async_trait::async_trait;
use copepod_api::{ApiError, ApiResult};
use copepod_registry::{Admission, Attributes};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::Value;

use super::{Failure, Hook, Invocation, Shared, Views, closed, exempt, open};
use crate::admission::Deps;

/// The plugin.
#[derive(Debug)]
pub(in crate::admission) struct ValidatingAdmissionWebhook(Shared);

impl ValidatingAdmissionWebhook {
    /// A plugin with what all plugins share.
    pub(in crate::admission) fn new(deps: &Deps) -> Self {
        Self(Shared::new("validatingwebhookconfigurations", deps))
    }

    async fn run(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let hooks = self.0.source.hooks(&self.0.reader).await;
        let mut relevant: Vec<(&Hook, Invocation, Views)> = Vec::new();
        for hook in hooks.iter() {
            let Some(invocation) = self.0.invocation(hook, attributes, object).await? else { continue };
            let views = self.0.views(attributes, &invocation, object).await.map_err(ApiError::internal)?;
            if self.0.conditions_hold(hook, attributes, &invocation, &views)? {
                relevant.push((hook, invocation, views));
            }
        }
        let mut calls: FuturesUnordered<_> = relevant
            .iter()
            .map(async |(hook, invocation, views)| {
                let result = self.0.call(hook, attributes, invocation, views, false).await;
                (*hook, result)
            })
            .collect();
        let mut first: Option<ApiError> = None;
        while let Some((hook, result)) = calls.next().await {
            let error = match result {
                Ok(_) => continue,
                Err(Failure::Calling(why)) if hook.ignore => {
                    open(hook, &why);
                    continue;
                }
                Err(Failure::Calling(why)) => closed(hook, &why),
                Err(Failure::Final(error)) => error,
            };
            first.get_or_insert(error);
        }
        first.map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Admission for ValidatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        if exempt(attributes) { Ok(()) } else { self.run(attributes, object).await }
    }
}
