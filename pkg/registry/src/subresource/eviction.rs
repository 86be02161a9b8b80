//! `pods/eviction`: a delete that disruption budgets may refuse.

use copepod_api::{
    ApiError, ApiResult, GroupResource, GroupVersionKind, LabelSelector, Reason, Status, meta,
    status::StatusCause,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{binding::set_condition, success};
use crate::{
    codec, metadata,
    object::{Deleted, Object},
    request::{Body, DeleteOptions, Preconditions, RequestContext, Target},
    store::{Change, Part, Store},
};

/// Most evictions that the disruption controller may leave unconfirmed.
const UNCONFIRMED: usize = 2000;
const REFUSAL: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

pub(super) async fn create(
    store: &Store,
    cx: &RequestContext,
    target: &Target,
    body: &Body,
) -> ApiResult<Object> {
    let gvk = GroupVersionKind::new("policy", "v1", "Eviction");
    let schema = copepod_schema::builtin().kind(&gvk.group, &gvk.version, &gvk.kind);
    let schema = schema.ok_or_else(|| ApiError::internal("no schema of Eviction"))?;
    let mut eviction = codec::decode_as(cx, body, &gvk, schema)?;
    if meta::name(&eviction) != target.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    store.admit_post(cx, target, &gvk, &mut eviction).await?;
    let given = eviction.get("deleteOptions").filter(|o| !o.is_null());
    let options: DeleteOptions = match given {
        Some(given) => DeleteOptions::deserialize(given).map_err(|e| ApiError::bad_request(e.to_string()))?,
        None => DeleteOptions::default(),
    };
    let mut cx = cx.clone();
    cx.dry_run |=
        given.and_then(|o| o.get("dryRun")).and_then(Value::as_array).is_some_and(|d| !d.is_empty());
    let pod_target = Target::new(target.namespace.as_deref(), &target.name);
    let pod = store.current(pod_target.namespace.as_deref(), &pod_target.name).await?;
    let pod = pod.ok_or_else(|| store.not_found(&target.name))?;
    let pod = store.row.load(&pod)?;
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let going = meta::deletion_timestamp(&pod).is_some();
    if going || matches!(phase, "Succeeded" | "Failed" | "Pending") {
        // A pod that is starting may become healthy meanwhile, and then budgets count.
        let guard = !going && phase == "Pending";
        evict(store, &cx, &pod_target, &options, guard.then_some(&pod)).await?;
        return Ok(success());
    }
    let guarded = charge(store, &cx, &pod).await?;
    match evict(store, &cx, &pod_target, &options, guarded.then_some(&pod)).await {
        Err(error) if error.is(Reason::Conflict) && guarded => Err(still_processed("")),
        Err(error) => Err(error),
        Ok(()) => Ok(success()),
    }
}

/// Takes the eviction from the pod's budget; whether the delete must see the pod unchanged.
async fn charge(store: &Store, cx: &RequestContext, pod: &Value) -> ApiResult<bool> {
    let budgets = store.core.sibling("policy", "v1", "poddisruptionbudgets")?;
    let matching = budgets_of(&budgets, pod).await?;
    let [name] = matching.as_slice() else {
        if matching.is_empty() {
            return Ok(false);
        }
        return Err(ApiError::from_status(Status {
            status: "Failure".to_owned(),
            message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                .to_owned(),
            code: 500,
            ..Status::default()
        }));
    };
    let namespace = Some(meta::namespace(pod)).filter(|ns| !ns.is_empty());
    let target = Target::new(namespace, name);
    if !ready(pod) {
        let budget = budgets.current(namespace, name).await?;
        let budget = budget.ok_or_else(|| budgets.not_found(name))?;
        let budget = budgets.row.load(&budget)?;
        if spares_unhealthy(&budget) {
            return Ok(true);
        }
    }
    let make = |old: Option<&Value>| {
        let old = old.ok_or_else(|| budgets.not_found(name))?;
        decrement(old, meta::name(pod), cx)
    };
    let change = Change { target: &target, part: Part::Status, make: &make, create: false, owned: true };
    Box::pin(budgets.change_stored(cx, &change)).await?;
    Ok(false)
}

async fn budgets_of(budgets: &Store, pod: &Value) -> ApiResult<Vec<String>> {
    budgets.core.cache.fresh().await.map_err(|error| crate::error::from_store(&error))?;
    let prefix = budgets.row.def.key_prefix(Some(meta::namespace(pod)));
    let none = Map::new();
    let labels = meta::labels(pod).unwrap_or(&none);
    let mut names = Vec::new();
    for entry in budgets.core.cache.bucket(&prefix).entries(&prefix) {
        let budget = budgets.row.load(&entry)?;
        let selector = LabelSelector::from_object(budget.pointer("/spec/selector"));
        if selector.is_ok_and(|selector| selector.matches(labels)) {
            names.push(meta::name(&budget).to_owned());
        }
    }
    Ok(names)
}

fn ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn number(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or(0)
}

/// Whether a budget lets pods go that are not ready anyway.
fn spares_unhealthy(budget: &Value) -> bool {
    let (healthy, desired) =
        (number(budget, "/status/currentHealthy"), number(budget, "/status/desiredHealthy"));
    budget.pointer("/spec/unhealthyPodEvictionPolicy") == Some(&json!("AlwaysAllow"))
        || (healthy >= desired && desired > 0)
}

fn cause(mut error: ApiError, message: String) -> ApiError {
    let cause = StatusCause { reason: "DisruptionBudget".to_owned(), message, ..StatusCause::default() };
    error.status_mut().details.get_or_insert_default().causes.push(cause);
    error
}

fn still_processed(name: &str) -> ApiError {
    let text = format!("The disruption budget {name} is still being processed by the server.");
    cause(ApiError::too_many_requests(REFUSAL, 10), text)
}

/// The budget with one disruption less, or the refusal.
fn decrement(budget: &Value, pod: &str, cx: &RequestContext) -> ApiResult<Value> {
    let name = meta::name(budget);
    if number(budget, "/status/observedGeneration") < meta::generation(budget) {
        return Err(still_processed(name));
    }
    let allowed = number(budget, "/status/disruptionsAllowed");
    let forbidden = |why: &str, what: &str| {
        let error = ApiError::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), name, why);
        cause(error, format!("The disruption budget {name} does not allow evicting pods currently: {what}"))
    };
    if allowed < 0 {
        let why = "pdb disruptions allowed is negative";
        return Err(forbidden(why, why));
    }
    let disrupted = budget.pointer("/status/disruptedPods").and_then(Value::as_object).map_or(0, Map::len);
    if disrupted > UNCONFIRMED {
        return Err(forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(cause(ApiError::too_many_requests(REFUSAL, 0), exhausted(budget, name)));
    }
    let mut new = budget.clone();
    let Some(map) = new.as_object_mut() else { return Ok(new) };
    let status = meta::child_mut(map, "status");
    status.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
    meta::child_mut(status, "disruptedPods").insert(pod.to_owned(), metadata::time(cx.now).into());
    Ok(new)
}

fn exhausted(budget: &Value, name: &str) -> String {
    let (healthy, desired) =
        (number(budget, "/status/currentHealthy"), number(budget, "/status/desiredHealthy"));
    let conditions = budget.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let refused = conditions.into_iter().find(|c| c["type"] == "DisruptionAllowed" && c["status"] == "False");
    let text = |field: &str| refused.and_then(|c| c.get(field)).and_then(Value::as_str).unwrap_or_default();
    let (reason, message) = (text("reason"), text("message"));
    if reason == "SyncFailed" && !message.is_empty() {
        format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        )
    } else if healthy <= desired {
        format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
    } else if message.is_empty() {
        format!("The disruption budget {name} does not allow evicting pods currently")
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
    }
}

/// Marks the pod as a target of disruption and deletes it. `unchanged` is the pod that must still be there as it was.
async fn evict(
    store: &Store,
    cx: &RequestContext,
    target: &Target,
    options: &DeleteOptions,
    unchanged: Option<&Value>,
) -> ApiResult<()> {
    let mut options = options.clone();
    if let Some(pod) = unchanged {
        let conditions = options.preconditions.get_or_insert_with(Preconditions::default);
        conditions.resource_version.get_or_insert_with(|| meta::resource_version(pod).to_owned());
    }
    if !cx.dry_run {
        let wanted = options.preconditions.clone().unwrap_or_default();
        let make = |old: Option<&Value>| {
            let old = old.ok_or_else(|| store.not_found(&target.name))?;
            let (uid, version) = (wanted.uid.as_deref(), wanted.resource_version.as_deref());
            super::check_preconditions(
                store,
                target,
                old,
                uid.unwrap_or_default(),
                version.unwrap_or_default(),
            )?;
            let mut pod = old.clone();
            if let Some(map) = pod.as_object_mut() {
                let condition = json!({
                    "type": "DisruptionTarget", "status": "True",
                    "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
                });
                set_condition(meta::child_mut(map, "status"), condition, cx);
            }
            Ok(pod)
        };
        let change = Change { target, part: Part::Status, make: &make, create: false, owned: true };
        let written = Box::pin(store.change_stored(cx, &change)).await?;
        if let Some(version) = options.preconditions.as_mut().and_then(|p| p.resource_version.as_mut()) {
            *version = meta::resource_version(&written.object.to_value()).to_owned();
        }
    }
    let deleted: Deleted = Box::pin(store.delete(cx, target, &options)).await?;
    tracing::debug!(pod = %target.name, ?deleted, "evicted");
    Ok(())
}
