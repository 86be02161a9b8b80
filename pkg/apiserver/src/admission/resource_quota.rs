//! ResourceQuota: what is written is charged to the quotas of its namespace before it is stored.
//!
//! The last plugin, so that nothing is charged that another refuses. The charge is a status update that insists on the
//! version it was computed from; requests of one namespace take turns, so that they rarely get in each other's way.

use std::hash::{DefaultHasher, Hash, Hasher};

use async_trait::async_trait;
use copepod_api::{ApiError, ApiResult, GroupVersionResource, Reason, meta};
use copepod_quota::{Evaluator, Quota, Write, charge};
use copepod_registry::{Admission, Attributes, Body, Operation, RequestContext, Target};
use serde_json::Value;
use tokio::sync::Mutex;

use super::{Deps, forbid};

/// How often a charge is computed again after somebody else changed the quota; upstream's figure.
const RETRIES: usize = 3;
/// Namespaces share this many turns.
const TURNS: usize = 16;

#[derive(Debug)]
pub(super) struct ResourceQuota {
    deps: Deps,
    turns: [Mutex<()>; TURNS],
}

impl ResourceQuota {
    pub(super) fn new(deps: Deps) -> Self {
        Self { deps, turns: std::array::from_fn(|_| Mutex::default()) }
    }

    fn turn(&self, namespace: &str) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        namespace.hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % TURNS as u64).unwrap_or(0);
        &self.turns[at]
    }

    async fn quotas(&self, namespace: &str) -> Vec<Value> {
        self.deps.reader.list("", "resourcequotas", Some(namespace), "").await
    }

    /// Charges the write to `stored`; those quotas that somebody else changed meanwhile are tried again.
    async fn charge(
        &self,
        attributes: &Attributes<'_>,
        evaluator: &Evaluator,
        write: Write<'_>,
        mut stored: Vec<Value>,
    ) -> ApiResult<()> {
        for attempt in 0..=RETRIES {
            let quotas: Vec<Quota> = stored.iter().map(Quota::read).collect();
            let charged = charge(&quotas, evaluator, write)
                .map_err(|why| forbid(attributes, Some(write.object), why))?;
            if attributes.dry_run {
                return Ok(());
            }
            let mut failed: Option<(Vec<String>, ApiError)> = None;
            for ((old, new), object) in quotas.iter().zip(&charged).zip(&stored) {
                if old.used == new.used {
                    continue;
                }
                if let Err(error) = self.store(object, new).await {
                    let names = failed.take().map(|(names, _)| names).unwrap_or_default();
                    failed = Some(([names, vec![new.name.clone()]].concat(), error));
                }
            }
            let Some((names, error)) = failed else { return Ok(()) };
            if attempt == RETRIES {
                return Err(error);
            }
            stored = self.quotas(attributes.namespace).await;
            stored.retain(|quota| names.iter().any(|name| name == meta::name(quota)));
        }
        Ok(())
    }

    async fn store(&self, object: &Value, charged: &Quota) -> ApiResult<()> {
        let store = self.deps.reader.0.store(&GroupVersionResource::new("", "v1", "resourcequotas"));
        let store = store.ok_or_else(|| ApiError::internal("resourcequotas are not served"))?;
        let mut object = object.clone();
        if let Some(status) = object.as_object_mut().map(|map| meta::child_mut(map, "status")) {
            status.insert("used".to_owned(), charged.used.to_value());
        }
        let mut target = Target::new(Some(meta::namespace(&object)), &charged.name);
        target.subresource = Some("status".to_owned());
        match store.update(&RequestContext::internal(), &target, Body::Value(object)).await {
            // A quota that is gone limits nothing.
            Err(error) if !error.is(Reason::NotFound) => Err(error),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Admission for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let (gr, namespace) = (attributes.resource, attributes.namespace);
        let old = match attributes.operation {
            Operation::Create => None,
            Operation::Update => attributes.old,
            Operation::Delete | Operation::Connect => return Ok(()),
        };
        let is_namespace = gr.group.is_empty() && gr.resource == "namespaces";
        let Some(object) = object.filter(|_| !namespace.is_empty() && !is_namespace) else {
            return Ok(());
        };
        let Some(evaluator) = Evaluator::of(&gr.group, &gr.resource) else { return Ok(()) };
        if !evaluator.concerns(attributes.subresource, object, old) {
            return Ok(());
        }
        // Most namespaces have none, and wait for nobody.
        if self.quotas(namespace).await.is_empty() {
            return Ok(());
        }
        let _turn = self.turn(namespace).lock().await;
        let write =
            Write { object, old, subresource: attributes.subresource, now: copepod_sys::clock::now() };
        let quotas = self.quotas(namespace).await;
        self.charge(attributes, &evaluator, write, quotas).await
    }
}
