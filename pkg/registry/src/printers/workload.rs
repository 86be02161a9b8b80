//! What makes pods: controllers and jobs.

use copepod_api::meta;
use serde_json::Value;

use super::cells::{
    age, condition, containers, count, deleting, int, labels, list, seconds_between, selector, selector_text,
    since, text, text_or, time,
};
use super::duration::human_duration;
use super::rows::{Context, Printer};

const REPLICAS: &str = "Name|Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*";

fn replicas(cx: &Context<'_>, object: &Value, selector: Value) -> Vec<Value> {
    let [names, images] = containers(object.pointer("/spec/template/spec"));
    vec![
        meta::name(object).into(),
        int(object, "/spec/replicas").into(),
        int(object, "/status/replicas").into(),
        int(object, "/status/readyReplicas").into(),
        age(cx.now, object),
        names,
        images,
        selector,
    ]
}

/// Replication controllers.
pub(super) static CONTROLLERS: Printer =
    Printer::new(REPLICAS, |cx, object| replicas(cx, object, labels(object.pointer("/spec/selector"))));

/// Replica sets.
pub(super) static REPLICA_SETS: Printer = Printer::new(REPLICAS, |cx, object| {
    replicas(cx, object, selector(object.pointer("/spec/selector")).into())
});

/// Deployments.
pub(super) static DEPLOYMENTS: Printer =
    Printer::new("Name|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*", |cx, object| {
        let [names, images] = containers(object.pointer("/spec/template/spec"));
        vec![
            meta::name(object).into(),
            format!("{}/{}", int(object, "/status/readyReplicas"), int(object, "/spec/replicas")).into(),
            int(object, "/status/updatedReplicas").into(),
            int(object, "/status/availableReplicas").into(),
            age(cx.now, object),
            names,
            images,
            selector_text(object.pointer("/spec/selector")).into(),
        ]
    });

/// Stateful sets.
pub(super) static STATEFUL_SETS: Printer =
    Printer::new("Name|Ready|Age|Containers*|Images*", |cx, object| {
        let [names, images] = containers(object.pointer("/spec/template/spec"));
        let ready = format!("{}/{}", int(object, "/status/readyReplicas"), int(object, "/spec/replicas"));
        vec![meta::name(object).into(), ready.into(), age(cx.now, object), names, images]
    });

/// Daemon sets.
pub(super) static DAEMON_SETS: Printer = Printer::new(
    "Name|Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer|Node Selector|Age|Containers*|Images*|Selector*",
    |cx, object| {
        let counts = [
            "/status/desiredNumberScheduled",
            "/status/currentNumberScheduled",
            "/status/numberReady",
            "/status/updatedNumberScheduled",
            "/status/numberAvailable",
        ];
        let [names, images] = containers(object.pointer("/spec/template/spec"));
        let mut cells = vec![meta::name(object).into()];
        cells.extend(counts.iter().map(|pointer| Value::from(int(object, pointer))));
        cells.push(labels(object.pointer("/spec/template/spec/nodeSelector")));
        cells.push(age(cx.now, object));
        cells.extend([names, images, selector(object.pointer("/spec/selector")).into()]);
        cells
    },
);

/// Controller revisions.
pub(super) static REVISIONS: Printer = Printer::new("Name|Controller|Revision|Age", |cx, object| {
    let owner =
        list(object, "/metadata/ownerReferences").iter().find(|o| o.get("controller") == Some(&true.into()));
    let owner = owner.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let group = text(owner, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
            let dot = if group.is_empty() { "" } else { "." };
            format!("{}{dot}{group}/{}", text(owner, "/kind"), text(owner, "/name"))
        },
    );
    let owner = owner
        .split_once('/')
        .map_or_else(|| owner.clone(), |(kind, name)| format!("{}/{name}", kind.to_lowercase()));
    vec![meta::name(object).into(), owner.into(), int(object, "/revision").into(), age(cx.now, object)]
});

/// Jobs.
pub(super) static JOBS: Printer =
    Printer::new("Name|Status|Completions|Duration|Age|Containers*|Images*|Selector*", |cx, object| {
        let [names, images] = containers(object.pointer("/spec/template/spec"));
        vec![
            meta::name(object).into(),
            job_status(object).into(),
            completions(object).into(),
            duration(cx, object).into(),
            age(cx.now, object),
            names,
            images,
            selector(object.pointer("/spec/selector")).into(),
        ]
    });

fn job_status(job: &Value) -> &'static str {
    let conditions = list(job, "/status/conditions");
    let has = |kind| condition(conditions, kind) == Some("True");
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if deleting(job) => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let succeeded = int(job, "/status/succeeded");
    match job.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if int(job, "/spec/parallelism") > 1 => {
            format!("{succeeded}/1 of {}", int(job, "/spec/parallelism"))
        }
        None => format!("{succeeded}/1"),
    }
}

fn duration(cx: &Context<'_>, job: &Value) -> String {
    let Some(start) = time(job, "/status/startTime") else { return String::new() };
    let end = time(job, "/status/completionTime").unwrap_or(cx.now);
    human_duration(seconds_between(start, end))
}

/// Cron jobs.
pub(super) static CRON_JOBS: Printer = Printer::new(
    "Name|Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age|Containers*|Images*|Selector*",
    |cx, object| {
        let suspend = match object.pointer("/spec/suspend").and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        let last = time(object, "/status/lastScheduleTime");
        let last = if last.is_some() { since(cx.now, last) } else { "<none>".to_owned() };
        let [names, images] = containers(object.pointer("/spec/jobTemplate/spec/template/spec"));
        vec![
            meta::name(object).into(),
            text(object, "/spec/schedule").into(),
            text_or(object, "/spec/timeZone", "<none>").into(),
            suspend.into(),
            count(object, "/status/active").into(),
            last.into(),
            age(cx.now, object),
            names,
            images,
            selector(object.pointer("/spec/jobTemplate/spec/selector")).into(),
        ]
    },
);
