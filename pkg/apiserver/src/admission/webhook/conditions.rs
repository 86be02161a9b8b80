//! `matchConditions`: expressions that all must hold for a webhook to be called.

use copepod_api::{ApiError, ApiResult};
use copepod_cel::admission::Input;
use copepod_cel::{FailurePolicy, Match};
use copepod_registry::Attributes;
use serde_json::Value;

use crate::admission::policy::request::Answers;

use super::{Hook, Invocation, Shared, Views, requested, review};

impl Shared {
    /// Whether the webhook's conditions let it be called.
    pub(super) fn conditions_hold(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        invocation: &Invocation,
        views: &Views,
    ) -> ApiResult<bool> {
        let conditions = hook.conditions();
        if conditions.is_empty() {
            return Ok(true);
        }
        let (_, kind) = requested(self.registry(), attributes);
        let mut request = review::facts(attributes, invocation, &kind);
        request.insert("options".to_owned(), review::options(attributes));
        let request = Value::Object(request);
        let answers = Answers::new(&self.authorizer, attributes.user);
        let input = Input {
            object: Some(&views.object).filter(|o| !o.is_null()),
            old_object: Some(&views.old).filter(|o| !o.is_null()),
            request: &request,
            params: None,
            namespace: None,
            authorizer: Some(&answers),
        };
        let policy = if hook.ignore { FailurePolicy::Ignore } else { FailurePolicy::Fail };
        match conditions.matches(&input, policy) {
            Ok(Match::Yes) => Ok(true),
            Ok(Match::No(condition)) => {
                tracing::debug!(webhook = hook.name, condition, "webhook does not apply");
                Ok(false)
            }
            Err(why) => {
                Err(ApiError::forbidden(&attributes.resource.group_resource(), attributes.name, &why))
            }
        }
    }
}
