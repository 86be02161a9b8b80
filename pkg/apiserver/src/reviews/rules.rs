//! SelfSubjectRulesReview: what `kubectl auth can-i --list` shows.

use copepod_api::{ApiError, ApiResult};
use serde_json::{Value, json};

use crate::server::{Call, Server};
use crate::user::Identity as _;

impl Server {
    /// Fills in the rules of the caller in the namespace asked for.
    pub(super) fn rules_review(&self, call: &Call, object: &mut Value) -> ApiResult<()> {
        let namespace = object["spec"]["namespace"].as_str().unwrap_or_default().to_owned();
        if namespace.is_empty() {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        let (found, missing) = self.authz.rbac.read().rules_for(&call.user, &namespace);
        let mut resources = Vec::new();
        let mut paths = Vec::new();
        for rule in found.iter().flat_map(|r| r.iter()) {
            if !rule.resources.is_empty() {
                let mut item =
                    json!({"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
                if !rule.resource_names.is_empty() {
                    item["resourceNames"] = json!(rule.resource_names);
                }
                resources.push(item);
            }
            if !rule.non_resource_urls.is_empty() {
                paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
            }
        }
        let is_node = call.user.node_name().is_some();
        let mut status =
            json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": is_node});
        let mut errors = missing;
        if is_node {
            errors.push("node authorizer does not support user rule resolution".to_owned());
        }
        if !errors.is_empty() {
            status["evaluationError"] = json!(errors.join(", "));
        }
        object["spec"] = json!({});
        object["status"] = status;
        Ok(())
    }
}
