//! Pods and pod templates.

use copepod_api::meta;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{age, condition, containers, deleting, int, labels, list, since, text, text_or, time};
use super::rows::{Context, Printer};

/// Pods.
pub(super) static PODS: Printer = Printer {
    conditions,
    ..Printer::new("Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*", cells)
};

/// Pod templates.
pub(super) static TEMPLATES: Printer = Printer::new("Name|Containers|Images|Pod Labels", |_, object| {
    let [names, images] = containers(object.pointer("/template/spec"));
    vec![meta::name(object).into(), names, images, labels(object.pointer("/template/metadata/labels"))]
});

fn conditions(pod: &Value) -> Vec<Value> {
    let (reason, message) = match text(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

/// What the containers' states amount to.
#[derive(Debug, Default)]
struct Summary {
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    reason: String,
}

impl Summary {
    fn count_restarts(&mut self, status: &Value) {
        self.restarts += int(status, "/restartCount");
        self.last_restart = self.last_restart.max(time(status, "/lastState/terminated/finishedAt"));
    }
}

fn cells(cx: &Context<'_>, pod: &Value) -> Vec<Value> {
    let summary = summarize(pod);
    let mut restarts = summary.restarts.to_string();
    if summary.restarts != 0 && summary.last_restart.is_some() {
        restarts = format!("{restarts} ({} ago)", since(cx.now, summary.last_restart));
    }
    vec![
        meta::name(pod).into(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        age(cx.now, pod),
        text_or(pod, "/status/podIPs/0/ip", "<none>").into(),
        text_or(pod, "/spec/nodeName", "<none>").into(),
        text_or(pod, "/status/nominatedNodeName", "<none>").into(),
        readiness_gates(pod).into(),
    ]
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let conditions = list(pod, "/status/conditions");
    let open = gates.iter().filter(|g| condition(conditions, text(g, "/conditionType")) == Some("True"));
    format!("{}/{}", open.count(), gates.len())
}

fn summarize(pod: &Value) -> Summary {
    let restartable: Vec<&str> = list(pod, "/spec/initContainers")
        .iter()
        .filter(|c| text(c, "/restartPolicy") == "Always")
        .map(|c| text(c, "/name"))
        .collect();
    let mut summary = Summary {
        total: list(pod, "/spec/containers").len() + restartable.len(),
        reason: text_or(pod, "/status/reason", text(pod, "/status/phase")).to_owned(),
        ..Summary::default()
    };
    let conditions = list(pod, "/status/conditions");
    let gated = |c: &&Value| text(c, "/type") == "PodScheduled" && text(c, "/reason") == "SchedulingGated";
    if conditions.iter().any(|c| gated(&c)) {
        "SchedulingGated".clone_into(&mut summary.reason);
    }
    let mut sidecars = Summary::default();
    let initializing = init_state(pod, &restartable, &mut summary, &mut sidecars);
    if !initializing || condition(conditions, "Initialized") == Some("True") {
        summary.restarts = sidecars.restarts;
        summary.last_restart = sidecars.last_restart;
        main_state(pod, &mut summary);
    }
    if deleting(pod) && text(pod, "/status/reason") == "NodeLost" {
        "Unknown".clone_into(&mut summary.reason);
    } else if deleting(pod) && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
        "Terminating".clone_into(&mut summary.reason);
    }
    summary
}

/// Goes through the init containers up to the first that is not done; tells whether there is one.
fn init_state(pod: &Value, restartable: &[&str], summary: &mut Summary, sidecars: &mut Summary) -> bool {
    for (i, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
        summary.count_restarts(status);
        let sidecar = restartable.contains(&text(status, "/name"));
        if sidecar {
            sidecars.count_restarts(status);
        }
        let terminated = status.pointer("/state/terminated");
        let waiting = text(status, "/state/waiting/reason");
        if terminated.is_some() && int(status, "/state/terminated/exitCode") == 0 {
            continue;
        }
        if sidecar && status.get("started") == Some(&Value::Bool(true)) {
            summary.ready += usize::from(status.get("ready") == Some(&Value::Bool(true)));
            continue;
        }
        summary.reason = if terminated.is_some() {
            format!("Init:{}", ended(status))
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{i}/{}", list(pod, "/spec/initContainers").len())
        };
        return true;
    }
    false
}

/// Why a container ended: its reason, its signal or its exit code.
fn ended(status: &Value) -> String {
    let reason = text(status, "/state/terminated/reason");
    let signal = int(status, "/state/terminated/signal");
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", int(status, "/state/terminated/exitCode"))
    }
}

fn main_state(pod: &Value, summary: &mut Summary) {
    let (mut running, mut error) = (false, String::new());
    for status in list(pod, "/status/containerStatuses").iter().rev() {
        summary.count_restarts(status);
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.reason);
        } else if status.pointer("/state/terminated").is_some() {
            summary.reason = ended(status);
            if int(status, "/state/terminated/exitCode") != 0 {
                error.clone_from(&summary.reason);
            }
        } else if status.get("ready") == Some(&Value::Bool(true))
            && status.pointer("/state/running").is_some()
        {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" {
        let ready = condition(list(pod, "/status/conditions"), "Ready") == Some("True");
        if running && ready {
            "Running".clone_into(&mut summary.reason);
        } else if !error.is_empty() {
            summary.reason = error;
        } else if running {
            "NotReady".clone_into(&mut summary.reason);
        }
    }
}
