//! TaintNodesByCondition: a node starts out not ready, so that nothing is scheduled on it too early.

use copepod_api::ApiResult;
use copepod_registry::{Admission, Attributes};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::{creates, list_mut, spec_mut, text};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

#[derive(Debug)]
pub(super) struct TaintNodesByCondition;

impl Admission for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, ApiResult<()>> {
        Box::pin(async move {
            if !creates(attributes, "", "nodes") {
                return Ok(());
            }
            if let Some(taints) = spec_mut(object).and_then(|spec| list_mut(spec, "taints"))
                && !taints.iter().any(|t| text(t, "key") == NOT_READY && text(t, "effect") == "NoSchedule")
            {
                taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
            }
            Ok(())
        })
    }
}
