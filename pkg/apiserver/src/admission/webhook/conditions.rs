//! `matchConditions`: expressions that all must hold for a webhook to be called.

use copepod_api::{ApiError, ApiResult};
use copepod_registry::Attributes;

use super::{Hook, Invocation, Shared, Views};

impl Shared {
    /// Whether the webhook's conditions let it be called.
    #[expect(clippy::unused_async, reason = "the evaluator asks the authorizer")]
    pub(super) async fn conditions_hold(
        &self,
        hook: &Hook,
        attributes: &Attributes<'_>,
        _invocation: &Invocation,
        _views: &Views,
    ) -> ApiResult<bool> {
        if hook.conditions.is_empty() {
            return Ok(true);
        }
        let why = format!("the matchConditions of webhook {:?} cannot be evaluated yet", hook.name);
        Err(ApiError::forbidden(&attributes.resource.group_resource(), attributes.name, &why))
    }
}
