//! The kubelet under upstream's API server, scheduler and controllers.

use std::time::Duration;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::bench::Bench;
use crate::control_plane::{self, KUBELET_CONFIG, kubectl};

fn check(condition: bool, what: impl Into<String>) -> Result<(), Failed> {
    if condition { Ok(()) } else { Err(what.into().into()) }
}

fn json(bench: &Bench, args: &str) -> Result<Value, Failed> {
    Ok(serde_json::from_str(&kubectl(bench, &format!("{args} -o json"))?)?)
}

const STATIC: &str = include_str!("../../../../testdata/kubelet/static.yaml");

const WEB: &str = include_str!("../../../../testdata/kubelet/web.yaml");

/// The node registers, runs a Deployment, reports, deletes, and shows its static pods.
pub fn deployment() -> Result<(), Failed> {
    let mut bench = Bench::start()?;
    control_plane::start(&mut bench)?;
    bench.manifest("fixed.yaml", STATIC)?;
    bench.start_kubelet(&[("KUBELET_KUBECONFIG", KUBELET_CONFIG)])?;
    node_is_ready(&bench)?;
    mirror_pod(&bench)?;
    web(&bench)?;
    deletion(&bench)?;
    failures(&bench)?;
    job(&bench)?;
    bench.node.stop()?;
    Ok(())
}

fn node_is_ready(bench: &Bench) -> Result<(), Failed> {
    bench.within(Duration::from_secs(30), "the node is Ready", || {
        json(bench, "get node node1").is_ok_and(|n| {
            let conditions = n["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions
                .iter()
                .any(|c| c["type"] == "Ready" && c["status"] == "True" && c["reason"] == "KubeletReady")
        })
    })?;
    let node = json(bench, "get node node1")?;
    check(node["metadata"]["labels"]["kubernetes.io/hostname"] == "node1", "hostname label")?;
    check(node["status"]["addresses"][0]["address"] == bench.node.address().to_string(), "InternalIP")?;
    check(node["status"]["allocatable"]["pods"] == "110", "allocatable pods")?;
    let lease = json(bench, "-n kube-node-lease get lease node1")?;
    check(lease["spec"]["holderIdentity"] == "node1", "lease holder")
}

fn mirror_pod(bench: &Bench) -> Result<(), Failed> {
    bench.within(Duration::from_secs(20), "the mirror pod shows Running", || {
        json(bench, "-n kube-system get pod fixed-node1").is_ok_and(|p| {
            p["status"]["phase"] == "Running"
                && p["metadata"]["annotations"]["kubernetes.io/config.source"] == "file"
        })
    })?;
    let before = bench.running("fixed");
    kubectl(bench, "-n kube-system delete pod fixed-node1 --wait=false")?;
    bench.within(Duration::from_secs(20), "a deleted mirror comes back", || {
        json(bench, "-n kube-system get pod fixed-node1")
            .is_ok_and(|p| p["metadata"]["deletionTimestamp"].is_null() && p["status"]["phase"] == "Running")
    })?;
    check(bench.running("fixed") == before, "deleting the mirror disturbed the static pod")
}

fn apply(bench: &Bench, text: &str) -> Result<(), Failed> {
    std::fs::write(bench.node.host_path("/var/lib/apply.yaml"), text)?;
    kubectl(bench, "apply -f /var/lib/apply.yaml").map(|_| ())
}

fn web(bench: &Bench) -> Result<(), Failed> {
    bench.within(Duration::from_secs(30), "the default service account exists", || {
        kubectl(bench, "get sa default").is_ok()
    })?;
    apply(bench, WEB)?;
    bench.within(Duration::from_secs(60), "the deployment is available", || {
        json(bench, "get deployment web").is_ok_and(|d| d["status"]["availableReplicas"] == 2)
    })?;
    let pods = json(bench, "get pods -l app=web")?;
    let pod = &pods["items"][0];
    let ip = pod["status"]["podIP"].as_str().unwrap_or_default().to_owned();
    check(
        bench.sh(&format!("/usr/bin/busybox wget -q -O - http://{ip}:8080/"))? == "ready",
        "the pod answers",
    )?;
    check(pod["status"]["qosClass"] == "Burstable", "QoS class")?;
    check(pod["status"]["observedGeneration"] == pod["metadata"]["generation"], "observedGeneration")?;
    let init = &pod["status"]["initContainerStatuses"];
    check(init[0]["state"]["terminated"]["reason"] == "Completed", format!("init container {init}"))?;
    check(init[1]["started"] == true && init[1]["ready"] == true, format!("sidecar {init}"))?;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    check(kubectl(bench, &format!("exec {name} -c web -- cat /www/index.html"))? == "ready", "exec")?;
    let events = kubectl(bench, &format!("get events --field-selector involvedObject.name={name}"))?;
    for reason in ["Scheduled", "Pulled", "Created", "Started"] {
        check(events.contains(reason), format!("no {reason} event in {events}"))?;
    }
    Ok(())
}

fn deletion(bench: &Bench) -> Result<(), Failed> {
    kubectl(bench, "delete deployment web --wait=false")?;
    bench.within(Duration::from_secs(30), "the pods are gone from the API", || {
        json(bench, "get pods -l app=web").is_ok_and(|p| p["items"].as_array().is_some_and(Vec::is_empty))
    })?;
    check(bench.running("web").is_empty(), "containers outlive their pod")?;
    check(bench.sh("ls /var/log/pods")?.lines().all(|l| !l.contains("_web-")), "logs outlive their pod")
}

fn failures(bench: &Bench) -> Result<(), Failed> {
    let pod = |name: &str, extra: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{terminationGracePeriodSeconds: 1, containers: [{{name: c, {extra}}}]}}\n---\n"
        )
    };
    let all = [
        pod(
            "crash",
            r#"image: "busybox:1", command: ["/bin/sh", "-c", "echo why > /dev/termination-log; exit 3"]"#,
        ),
        pod("absent", r#"image: "localhost:1/none:1""#),
        pod("never", r#"image: "localhost:1/none:1", imagePullPolicy: Never"#),
        pod("badname", r#"image: "Bad:1""#),
        pod("noroot", r#"image: "busybox:1", securityContext: {runAsNonRoot: true}"#),
    ];
    apply(bench, &all.concat())?;
    for (name, reasons) in [
        ("crash", ["CrashLoopBackOff", ""]),
        ("absent", ["ErrImagePull", "ImagePullBackOff"]),
        ("never", ["ErrImageNeverPull", ""]),
        ("badname", ["InvalidImageName", ""]),
        ("noroot", ["CreateContainerConfigError", ""]),
    ] {
        bench.within(Duration::from_secs(30), &format!("{name} waits for {reasons:?}"), || {
            json(bench, &format!("get pod {name}")).is_ok_and(|p| {
                let reason = p["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
                reasons.iter().any(|r| reason == *r)
            })
        })?;
    }
    let crash = json(bench, "get pod crash")?;
    let last = &crash["status"]["containerStatuses"][0]["lastState"]["terminated"];
    check(kubectl(bench, "logs crash --previous").is_ok(), "logs of the run before")?;
    check(last["exitCode"] == 3 && last["message"] == "why\n", format!("last state {last}"))?;
    kubectl(bench, "delete pods crash absent never badname noroot --timeout=60s").map(|_| ())
}

fn job(bench: &Bench) -> Result<(), Failed> {
    kubectl(bench, "create job once --image=busybox:1 -- /bin/sh -c 'exit 0'")?;
    bench.within(Duration::from_secs(30), "the job completes", || {
        json(bench, "get job once").is_ok_and(|j| j["status"]["succeeded"] == 1)
    })?;
    let pods = json(bench, "get pods -l job-name=once")?;
    check(pods["items"][0]["status"]["phase"] == "Succeeded", "phase of the finished pod")?;
    kubectl(bench, "delete job once --timeout=60s").map(|_| ())
}
