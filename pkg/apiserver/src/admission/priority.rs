//! Priority: a pod's class becomes its number; one class at most is the default.

use async_trait::async_trait;
use copepod_api::{ApiResult, meta};
use copepod_registry::{Admission, Attributes, Operation};
use serde_json::{Value, json};

use super::{Deps, forbid, is, spec_mut, text};

const GROUP: &str = "scheduling.k8s.io";

#[derive(Debug)]
pub(super) struct Priority(pub Deps);

#[async_trait]
impl Admission for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        if !is(attributes, "", "pods") {
            return Ok(());
        }
        match (attributes.operation, attributes.old) {
            (Operation::Create, _) => self.admit(attributes, object).await,
            (Operation::Update, Some(old)) => {
                keep(object, old);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let Some(class) = object.filter(|_| is(attributes, GROUP, "priorityclasses")) else {
            return Ok(());
        };
        if class["globalDefault"].as_bool() != Some(true) {
            return Ok(());
        }
        let other = self.default_class().await.filter(|c| meta::name(c) != meta::name(class));
        match other {
            Some(other) if attributes.operation != Operation::Delete => {
                let name = meta::name(&other);
                let why =
                    format!("PriorityClass {name} is already marked as default. Only one default can exist");
                Err(forbid(attributes, object, why))
            }
            _ => Ok(()),
        }
    }
}

/// What create has set stays when an update leaves it out.
fn keep(pod: &mut Value, old: &Value) {
    let Some(spec) = spec_mut(pod) else { return };
    for field in ["priority", "preemptionPolicy"] {
        if let Some(value) = old["spec"].get(field).filter(|v| !v.is_null())
            && spec.get(field).is_none_or(Value::is_null)
        {
            spec.insert(field.to_owned(), value.clone());
        }
    }
}

impl Priority {
    /// The default class of lowest value, as upstream chooses where there are several.
    async fn default_class(&self) -> Option<Value> {
        let classes = self.0.reader.list(GROUP, "priorityclasses", None, "").await;
        let defaults = classes.into_iter().filter(|c| c["globalDefault"].as_bool() == Some(true));
        defaults.min_by_key(|c| c["value"].as_i64())
    }

    async fn admit(&self, attributes: &Attributes<'_>, pod: &mut Value) -> ApiResult<()> {
        let name = text(&pod["spec"], "priorityClassName").to_owned();
        let class = if name.is_empty() {
            self.default_class().await
        } else {
            let found = self.0.reader.get(GROUP, "priorityclasses", None, &name).await;
            if found.is_none() {
                let why = format!("no PriorityClass with name {name} was found");
                return Err(forbid(attributes, Some(pod), why));
            }
            found
        };
        let value = class.as_ref().and_then(|c| c["value"].as_i64()).unwrap_or(0);
        let policy = class.as_ref().map_or("PreemptLowerPriority", |c| match text(c, "preemptionPolicy") {
            "" => "PreemptLowerPriority",
            policy => policy,
        });
        if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != value) {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
            );
            return Err(forbid(attributes, Some(pod), why));
        }
        let given = text(&pod["spec"], "preemptionPolicy");
        if !given.is_empty() && given != policy {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            );
            return Err(forbid(attributes, Some(pod), why));
        }
        let Some(spec) = spec_mut(pod) else { return Ok(()) };
        if let Some(class) = &class {
            spec.insert("priorityClassName".to_owned(), json!(meta::name(class)));
        }
        spec.insert("priority".to_owned(), json!(value));
        spec.insert("preemptionPolicy".to_owned(), json!(policy));
        Ok(())
    }
}
