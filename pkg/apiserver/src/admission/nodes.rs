//! TaintNodesByCondition: a node starts out not ready, so that nothing is scheduled on it too early.

use async_trait::async_trait;
use copepod_api::ApiResult;
use copepod_registry::{Admission, Attributes};
use serde_json::{Value, json};

use super::{creates, list_mut, spec_mut, text};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

#[derive(Debug)]
pub(super) struct TaintNodesByCondition;

#[async_trait]
impl Admission for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        if !creates(attributes, "", "nodes") {
            return Ok(());
        }
        if let Some(taints) = spec_mut(object).and_then(|spec| list_mut(spec, "taints"))
            && !taints.iter().any(|t| text(t, "key") == NOT_READY && text(t, "effect") == "NoSchedule")
        {
            taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        }
        Ok(())
    }
}
