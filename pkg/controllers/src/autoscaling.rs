//! HorizontalPodAutoscalers: the number of pods follows what they use.
//!
//! Usage is read from the resource metrics API, where there is one; metrics of other kinds are not read, and the
//! conditions say so. What is decided is in [`usage`] and [`limits`], both pure.

mod limits;
mod usage;
mod views;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use copepod_api::LabelSelector;
use copepod_client::resources::HORIZONTAL_POD_AUTOSCALERS as AUTOSCALERS;
use copepod_client::{
    ClientError, EventKind, Informer, InformerConfig, ListOptions, ObjectKey, Outcome, ResourceRef, WorkQueue,
};
use copepod_sys::clock;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::context::{Context, SyncResult};
use crate::discovery::discover;
use crate::status::plan_status;
use crate::step::{event, execute_all};
use crate::views::{Condition, set_condition};
use limits::{History, Limited};
use views::{Autoscaler, Metric, PodMetrics, Scale, Status};

/// `--horizontal-pod-autoscaler-sync-period`.
const PERIOD: Duration = Duration::from_secs(15);
const METRICS: ResourceRef = ResourceRef::namespaced("metrics.k8s.io", "v1beta1", "pods", "PodMetrics");

/// What was recommended and done lately, by autoscaler.
type Histories = Arc<Mutex<HashMap<ObjectKey, History>>>;

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue: WorkQueue<ObjectKey> = WorkQueue::new();
    let autoscalers: Informer<Autoscaler> = Informer::new(InformerConfig::all(AUTOSCALERS));
    let changed = queue.clone();
    autoscalers.on_change(move |key, delta| {
        if delta.old().is_none_or(|old| old.metadata.generation != delta.object().metadata.generation) {
            changed.add(key.clone());
        }
    });
    autoscalers.start(&context.reader, &context.shutdown);
    let histories = Histories::default();
    context.work(&queue, 2, move |context, key| {
        let (autoscalers, histories) = (autoscalers.clone(), Arc::clone(&histories));
        async move {
            let Some(autoscaler) = autoscalers.get_key(&key) else {
                histories.lock().remove(&key);
                return Ok(Outcome::Done);
            };
            sync(&context, &autoscaler, &histories).await
        }
    });
}

/// One look at one autoscaler: its status grows while it is made.
struct Look<'a> {
    context: &'a Context,
    autoscaler: &'a Autoscaler,
    status: Status,
}

impl Look<'_> {
    fn set(&mut self, kind: &str, status: bool, reason: &str, message: impl Into<String>) {
        set_condition(
            &mut self.status.conditions,
            Condition::new(kind, status, reason, message),
            clock::now(),
        );
    }

    fn tell(&self, kind: EventKind, reason: &str, message: impl Into<String>) {
        event(self.context, (&AUTOSCALERS, &self.autoscaler.metadata), kind, reason, message);
    }

    async fn write(&self) -> Result<(), ClientError> {
        let meta = &self.autoscaler.metadata;
        let step = plan_status(&AUTOSCALERS, meta, &self.autoscaler.status, &self.status);
        execute_all(self.context, step.into_iter().collect()).await
    }
}

async fn sync(context: &Context, autoscaler: &Autoscaler, histories: &Histories) -> SyncResult {
    let mut look = Look { context, autoscaler, status: autoscaler.status.clone() };
    look.status.observed_generation = Some(autoscaler.metadata.generation);
    let found = scale_of(context, autoscaler).await?;
    let (target, scale) = match found {
        Ok(found) => found,
        Err(why) => {
            look.tell(EventKind::Warning, "FailedGetScale", why.as_str());
            let text = format!("the HPA controller was unable to get the target's current scale: {why}");
            look.set("AbleToScale", false, "FailedGetScale", text);
            look.write().await?;
            return Ok(Outcome::After(PERIOD));
        }
    };
    let text = "the HPA controller was able to get the target's current scale";
    look.set("AbleToScale", true, "SucceededGetScale", text);
    let key = autoscaler.metadata.key();
    let mut history = histories.lock().remove(&key).unwrap_or_else(|| History::of(scale.spec.replicas));
    let wanted = decide(&mut look, &scale, &mut history).await;
    let outcome = match wanted {
        Some((replicas, reason)) => {
            rescale(&mut look, (&target, &scale), replicas, &reason, &mut history).await
        }
        None => Ok(()),
    };
    histories.lock().insert(key, history);
    look.write().await?;
    outcome.map(|()| Outcome::After(PERIOD))
}

/// The target's resource and scale, or why there is none.
async fn scale_of(
    context: &Context,
    autoscaler: &Autoscaler,
) -> Result<Result<(ResourceRef, Scale), String>, ClientError> {
    let target = &autoscaler.spec.scale_target_ref;
    let group = target.api_version.split_once('/').map_or("", |(group, _)| group);
    let (found, _) = discover(&context.reader).await?;
    let served = found.into_iter().find(|d| *d.resource.group == *group && *d.resource.kind == *target.kind);
    let Some(served) = served else {
        return Ok(Err(format!("no matches for kind {:?} in group {group:?}", target.kind)));
    };
    let object = served.resource.object(&autoscaler.metadata.namespace, &target.name).subresource("scale");
    match context.client.get::<Scale>(&object).await {
        Ok(scale) => Ok(Ok((served.resource, scale))),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// How many pods there should be and why; `None` when nothing can or has to be done.
async fn decide(look: &mut Look<'_>, scale: &Scale, history: &mut History) -> Option<(i64, String)> {
    let spec = &look.autoscaler.spec;
    let (current, least) = (scale.spec.replicas, spec.min_replicas.unwrap_or(1));
    look.status.current_replicas = current;
    if current == 0 && least != 0 {
        look.status.desired_replicas = 0;
        look.status.current_metrics.clear();
        let text = "scaling is disabled since the replica count of the target is zero";
        look.set("ScalingActive", false, "ScalingDisabled", text);
        return None;
    }
    if current > spec.max_replicas {
        look.status.current_metrics.clear();
        return Some((spec.max_replicas, "Current number of replicas above Spec.MaxReplicas".to_owned()));
    }
    if current < least {
        look.status.current_metrics.clear();
        return Some((least, "Current number of replicas below Spec.MinReplicas".to_owned()));
    }
    let (proposed, metric) = match propose(look, scale).await {
        Ok(proposed) => proposed,
        Err(why) => {
            look.tell(EventKind::Warning, "FailedComputeMetricsReplicas", why);
            return None;
        }
    };
    let reason = match proposed.cmp(&current) {
        std::cmp::Ordering::Greater => format!("{metric} above target"),
        _ => "All metrics below target".to_owned(),
    };
    let Limited { replicas, able, limited } =
        history.limit(spec, current, proposed, tokio::time::Instant::now());
    look.set("AbleToScale", true, able.0, able.1);
    look.set("ScalingLimited", limited.0, limited.1, limited.2);
    look.status.desired_replicas = replicas;
    (replicas != current).then_some((replicas, reason))
}

/// The largest number of pods that a metric asks for, with the metric's name.
async fn propose(look: &mut Look<'_>, scale: &Scale) -> Result<(i64, String), String> {
    if scale.status.selector.is_empty() {
        look.tell(EventKind::Warning, "SelectorRequired", "selector is required");
        let text = "the HPA target's scale is missing a selector";
        look.set("ScalingActive", false, "InvalidSelector", text);
        return Err("selector is required".to_owned());
    }
    let metrics = look.autoscaler.spec.metrics.clone();
    let (mut best, mut first, mut failed) = (None::<(i64, String)>, None, 0);
    let mut statuses = Vec::new();
    for metric in &metrics {
        match one(look, scale, metric).await {
            Ok((replicas, name, status)) => {
                statuses.push(status);
                if best.as_ref().is_none_or(|(most, _)| replicas > *most) {
                    best = Some((replicas, name));
                }
            }
            Err((reason, prefix, why)) => {
                statuses.push(json!({"type": ""}));
                failed += 1;
                look.tell(EventKind::Warning, reason, why.as_str());
                if first.is_none() {
                    first = Some((reason, format!("failed to get {prefix} metric value: {why}"), why));
                }
            }
        }
    }
    look.status.current_metrics = statuses;
    let shrinks = best.as_ref().is_none_or(|(replicas, _)| *replicas < scale.spec.replicas);
    match (best, first) {
        (Some((replicas, name)), first) if first.is_none() || !shrinks => {
            let text = format!("the HPA was able to successfully calculate a replica count from {name}");
            look.set("ScalingActive", true, "ValidMetricFound", text);
            Ok((replicas, name))
        }
        (_, Some((reason, full, why))) => {
            let text = format!("the HPA was unable to compute the replica count: {why}");
            look.set("ScalingActive", false, reason, text);
            Err(format!(
                "invalid metrics ({failed} invalid out of {}), first error is: {full}",
                metrics.len()
            ))
        }
        (None, None) | (Some(_), None) => Err("no metrics".to_owned()),
    }
}

/// Replicas, name and status of a metric; or the reason, the metric's name in the error, and the error.
type Proposal = Result<(i64, String, Value), (&'static str, String, String)>;

async fn one(look: &Look<'_>, scale: &Scale, metric: &Metric) -> Proposal {
    let (source, container, reason) = match &*metric.r#type {
        "Resource" => (metric.resource.as_ref(), false, "FailedGetResourceMetric"),
        "ContainerResource" => (metric.container_resource.as_ref(), true, "FailedGetContainerResourceMetric"),
        other => {
            let (reason, prefix) = match other {
                "Pods" => ("FailedGetPodsMetric", "pods"),
                "Object" => ("FailedGetObjectMetric", "object"),
                _ => ("FailedGetExternalMetric", "external"),
            };
            return Err((reason, prefix.to_owned(), format!("metrics of type {other} are not read")));
        }
    };
    let Some(source) = source else {
        return Err((reason, String::new(), "the metric is not told".to_owned()));
    };
    let prefix = if container {
        format!("{} container", source.container)
    } else {
        format!("{} resource", source.name)
    };
    let kind = if source.target.average_value.is_some() { "usage" } else { "utilization" };
    let fail = |why: String| (reason, prefix.clone(), format!("failed to get {} {kind}: {why}", source.name));
    let metrics = fetch(look, scale)
        .await
        .map_err(|why| fail(format!("unable to get metrics for resource {}: {why}", source.name)))?;
    let selector = LabelSelector::parse(&scale.status.selector).map_err(|error| fail(error.to_string()))?;
    let mut pods = look.context.caches.pods.list_namespace(&look.autoscaler.metadata.namespace);
    pods.retain(|pod| selector.matches(&pod.metadata.labels));
    let measured =
        usage::measure(&pods, &metrics, source, scale.spec.replicas, clock::now()).map_err(fail)?;
    let mut current = json!({"averageValue": measured.average});
    let name = match measured.utilization {
        Some(percent) => {
            current["averageUtilization"] = json!(percent);
            let kind = if container { "container resource" } else { "resource" };
            format!("{} {kind} utilization (percentage of request)", source.name)
        }
        None => format!("{} resource", source.name),
    };
    let status = if container {
        let about = json!({"name": source.name, "container": source.container, "current": current});
        json!({"type": "ContainerResource", "containerResource": about})
    } else {
        json!({"type": "Resource", "resource": {"name": source.name, "current": current}})
    };
    Ok((measured.replicas, name, status))
}

async fn fetch(look: &Look<'_>, scale: &Scale) -> Result<Vec<PodMetrics>, String> {
    let target = METRICS.collection(&look.autoscaler.metadata.namespace);
    let options = ListOptions { label_selector: scale.status.selector.clone(), ..ListOptions::default() };
    let told = |why: String| {
        format!("unable to fetch metrics from resource metrics API: {why} (get pods.metrics.k8s.io)")
    };
    match look.context.client.list::<PodMetrics>(&target, &options).await {
        Ok(list) if list.items.is_empty() => Err("no metrics returned from resource metrics API".to_owned()),
        Ok(list) => Ok(list.items),
        Err(error) if error.not_found() => {
            Err(told("the server could not find the requested resource".to_owned()))
        }
        Err(error) => Err(told(error.to_string())),
    }
}

async fn rescale(
    look: &mut Look<'_>,
    (target, scale): (&ResourceRef, &Scale),
    replicas: i64,
    reason: &str,
    history: &mut History,
) -> Result<(), ClientError> {
    let object = target.object(&scale.metadata.namespace, &scale.metadata.name).subresource("scale");
    let mut body = scale.source.clone();
    body["spec"]["replicas"] = json!(replicas);
    match look.context.client.update::<Value>(&object, &body).await {
        Ok(_) => {
            history.done(scale.spec.replicas, replicas, tokio::time::Instant::now());
            let text = format!("the HPA controller was able to update the target scale to {replicas}");
            look.set("AbleToScale", true, "SucceededRescale", text);
            look.tell(
                EventKind::Normal,
                "SuccessfulRescale",
                format!("New size: {replicas}; reason: {reason}"),
            );
            look.status.desired_replicas = replicas;
            look.status.last_scale_time = Some(clock::now());
            Ok(())
        }
        Err(error) => {
            let text = format!("New size: {replicas}; reason: {reason}; error: {error}");
            look.tell(EventKind::Warning, "FailedRescale", text);
            let text = format!("the HPA controller was unable to update the target scale: {error}");
            look.set("AbleToScale", false, "FailedUpdateScale", text);
            Err(error)
        }
    }
}
