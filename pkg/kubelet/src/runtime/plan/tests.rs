use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::runtime::view::pod_view;

#[derive(Default)]
struct Probes(HashMap<&'static str, ProbeResult>);

impl ProbeVerdicts for Probes {
    fn liveness(&self, id: &str) -> Option<ProbeResult> {
        self.0.get(id).copied()
    }
    fn startup(&self, _id: &str) -> Option<ProbeResult> {
        None
    }
}

fn pod(policy: &str, inits: &[(&str, bool)], mains: &[&str]) -> Pod {
    let container = |name: &str| json!({"name": name, "image": "i:1"});
    let inits: Vec<_> = inits
        .iter()
        .map(|(name, sidecar)| {
            let mut c = container(name);
            if *sidecar {
                c["restartPolicy"] = json!("Always");
            }
            c
        })
        .collect();
    let mains: Vec<_> = mains.iter().map(|n| container(n)).collect();
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {"restartPolicy": policy, "initContainers": inits, "containers": mains}
    }))
    .unwrap()
}

/// Restart policy, containers and their states, the plan in words.
type Row = (&'static str, &'static [(&'static str, char)], &'static str);

/// A ready sandbox with containers given as (name, state): `r`unning, `0` exited well, `1` failed, `u`nknown.
fn state(containers: &[(&str, char)]) -> RuntimePod {
    let sandbox = cri::PodSandboxStatus {
        id: "s".to_owned(),
        state: cri::PodSandboxState::SandboxReady.into(),
        metadata: Some(cri::PodSandboxMetadata::default()),
        network: Some(cri::PodSandboxNetworkStatus { ip: "10.0.0.2".to_owned(), ..Default::default() }),
        ..Default::default()
    };
    let views = containers
        .iter()
        .map(|(name, what)| {
            let spec =
                Container { name: (*name).to_owned(), image: Some("i:1".to_owned()), ..Default::default() };
            let status = cri::ContainerStatus { id: (*name).to_owned(), ..Default::default() };
            let mut view = crate::runtime::view::container_view(&status, "s");
            view.name = (*name).to_owned();
            view.hash = container_hash_text(&spec);
            view.created_at = Timestamp::UNIX_EPOCH;
            view.exit_code = i32::from(*what == '1');
            view.state = match what {
                'r' => cri::ContainerState::ContainerRunning,
                'u' => cri::ContainerState::ContainerUnknown,
                _ => cri::ContainerState::ContainerExited,
            };
            view
        })
        .collect();
    pod_view("u", vec![sandbox], views)
}

fn plan(pod: &Pod, state: &RuntimePod) -> String {
    plan_with(pod, state, &Probes::default())
}

fn plan_with(pod: &Pod, state: &RuntimePod, probes: &Probes) -> String {
    let a = plan_pod_actions(pod, state, probes);
    let mut words = Vec::new();
    if a.kill_pod {
        words.push("kill-pod".to_owned());
    }
    if a.create_sandbox {
        words.push(format!("sandbox#{}", a.attempt));
    }
    words.extend(a.kill.iter().map(|k| format!("kill {}", k.name)));
    words.extend(a.resize.iter().map(|(_, name)| format!("resize {name}")));
    words.extend(a.init.iter().map(|i| format!("init{i}")));
    words.extend(a.main.iter().map(|i| format!("main{i}")));
    words.join(" ")
}

#[test]
fn main_containers() {
    let table: &[Row] = &[
        ("Always", &[], "main0 main1"),
        ("Always", &[("a", 'r'), ("b", 'r')], ""),
        ("Always", &[("a", 'r'), ("b", '0')], "main1"),
        ("Always", &[("a", 'r'), ("b", 'u')], "kill b main1"),
        ("OnFailure", &[("a", '0'), ("b", '1')], "main1"),
        ("OnFailure", &[("a", '0'), ("b", '0')], "kill-pod"),
        ("Never", &[("a", 'r'), ("b", '1')], ""),
        ("Never", &[("a", '1'), ("b", '1')], "kill-pod"),
    ];
    for (policy, containers, expected) in table {
        assert_eq!(
            plan(&pod(policy, &[], &["a", "b"]), &state(containers)),
            *expected,
            "{policy} {containers:?}"
        );
    }
}

#[test]
fn init_containers_and_sidecars() {
    let table: &[Row] = &[
        ("Always", &[], "init0"),
        ("Always", &[("i", 'r')], ""),
        ("Always", &[("i", '0')], "init1"),
        ("Always", &[("i", '1')], "init0"),
        ("Never", &[("i", '1')], "kill-pod"),
        ("Always", &[("i", '0'), ("s", 'r')], "main0"),
        ("Always", &[("i", '0'), ("s", '1'), ("m", 'r')], "init1"),
        ("Always", &[("s", 'r'), ("m", 'r')], ""),
        ("Always", &[("m", 'r')], "init1"),
        ("Never", &[("i", '0'), ("s", 'r'), ("m", '0')], "kill-pod"),
    ];
    for (policy, containers, expected) in table {
        let pod = pod(policy, &[("i", false), ("s", true)], &["m"]);
        assert_eq!(plan(&pod, &state(containers)), *expected, "{policy} {containers:?}");
    }
}

#[test]
fn sandbox_rules() {
    let pod_always = pod("Always", &[], &["a"]);
    assert_eq!(plan(&pod_always, &RuntimePod::default()), "kill-pod sandbox#0 main0");
    let mut gone = state(&[("a", '1')]);
    gone.sandboxes[0].state = cri::PodSandboxState::SandboxNotready.into();
    assert_eq!(plan(&pod_always, &gone), "kill-pod sandbox#1 main0");
    assert_eq!(plan(&pod("Never", &[], &["a"]), &gone), "kill-pod");
    let mut no_ip = state(&[("a", 'r')]);
    no_ip.sandboxes[0].network = Some(cri::PodSandboxNetworkStatus::default());
    assert_eq!(plan(&pod_always, &no_ip), "kill-pod sandbox#1 main0");
}

#[test]
fn running_container_is_killed_for_cause_only() {
    let pod_always = pod("Always", &[], &["a"]);
    let mut changed = state(&[("a", 'r')]);
    changed.containers[0].hash = "0".to_owned();
    assert_eq!(plan(&pod_always, &changed), "kill a main0");
    let failed = Probes(HashMap::from([("a", ProbeResult::Failure)]));
    assert_eq!(plan_with(&pod_always, &state(&[("a", 'r')]), &failed), "kill a main0");
    assert_eq!(plan_with(&pod("Never", &[], &["a"]), &state(&[("a", 'r')]), &failed), "kill-pod kill a");
}

#[test]
fn changed_limits_resize_in_place_or_restart() {
    let with = |policy: &str| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u"},
            "spec": {"containers": [{"name": "a", "image": "i:1",
                "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}},
                "resizePolicy": [{"resourceName": "memory", "restartPolicy": policy}]}]}
        }))
        .unwrap()
    };
    let pod = with("RestartContainer");
    let mut running = state(&[("a", 'r')]);
    running.containers[0].resources = Some(container_limits(&pod, &pod.spec().containers[0], 1));
    assert_eq!(plan(&pod, &running), "");
    let limits = running.containers[0].resources.as_mut().unwrap();
    limits.cpu_quota = 1;
    assert_eq!(plan(&pod, &running), "resize a");
    running.containers[0].resources.as_mut().unwrap().memory_limit_in_bytes = 1;
    assert_eq!(plan(&pod, &running), "kill a main0");
    assert_eq!(plan(&with("NotRequired"), &running), "resize a");
}
