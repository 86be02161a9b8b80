//! One webhook of a configuration, read.

use std::sync::OnceLock;
use std::time::Duration;

use copepod_api::LabelSelector;
use copepod_api::meta;
use copepod_cel::MatchConditions;
use serde_json::Value;

use super::rules::Rule;
use crate::outbound::Endpoint;

/// A webhook with everything that a request needs to know of it.
#[derive(Debug)]
pub(super) struct Hook {
    /// Configuration, name and number: what tells webhooks apart.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Its rules.
    pub rules: Vec<Rule>,
    /// `failurePolicy: Ignore`.
    pub ignore: bool,
    /// `matchPolicy: Equivalent`.
    pub equivalent: bool,
    /// `reinvocationPolicy: IfNeeded`.
    pub reinvoke: bool,
    /// Whether it may be called for dry runs.
    pub dry_run: bool,
    /// Namespaces whose requests it sees; why there is none.
    pub namespaces: Result<LabelSelector, String>,
    /// Objects it sees.
    pub objects: Result<LabelSelector, String>,
    /// How long it may take.
    pub timeout: Duration,
    /// Where it is.
    pub endpoint: Result<Endpoint, String>,
    /// Versions of AdmissionReview it understands, the best first.
    pub versions: Vec<String>,
    /// `matchConditions` as written.
    conditions: Value,
    /// The same compiled, once they are needed.
    compiled: OnceLock<MatchConditions>,
}

impl Hook {
    /// `matchConditions`.
    pub(super) fn conditions(&self) -> &MatchConditions {
        self.compiled.get_or_init(|| MatchConditions::of(Some(&self.conditions), false))
    }

    /// The first version of AdmissionReview that both sides know.
    pub(super) fn version(&self) -> &str {
        let known = self.versions.iter().find(|v| matches!(v.as_str(), "v1" | "v1beta1"));
        known.map_or("", String::as_str)
    }
}

/// The webhooks of a configuration.
pub(super) fn of(configuration: &Value) -> Vec<Hook> {
    let list = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    let mut hooks: Vec<Hook> = Vec::new();
    for webhook in list {
        let text = |field: &str| webhook.get(field).and_then(Value::as_str).unwrap_or_default();
        let name = text("name");
        let before = hooks.iter().filter(|hook| hook.name == name).count();
        let items = |field: &str| webhook.get(field).and_then(Value::as_array).into_iter().flatten();
        let selector = |field: &str| match webhook.get(field).filter(|s| !s.is_null()) {
            Some(selector) => LabelSelector::from_object(Some(selector)).map_err(|e| e.to_string()),
            None => Ok(LabelSelector::everything()),
        };
        let seconds = webhook.get("timeoutSeconds").and_then(Value::as_u64).unwrap_or(10);
        hooks.push(Hook {
            uid: format!("{}/{name}/{before}", meta::name(configuration)),
            name: name.to_owned(),
            rules: items("rules").map(Rule::read).collect(),
            ignore: text("failurePolicy") == "Ignore",
            equivalent: text("matchPolicy") != "Exact",
            reinvoke: text("reinvocationPolicy") == "IfNeeded",
            dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            timeout: Duration::from_secs(seconds),
            endpoint: Endpoint::of_webhook(webhook.get("clientConfig").unwrap_or(&Value::Null)),
            versions: items("admissionReviewVersions").filter_map(Value::as_str).map(str::to_owned).collect(),
            conditions: webhook.get("matchConditions").cloned().unwrap_or_default(),
            compiled: OnceLock::new(),
        });
    }
    hooks
}
