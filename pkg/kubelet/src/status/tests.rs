use serde_json::json;

use super::*;
use crate::prober::ProbeKind;
use crate::runtime::plan::ProbeResult;
use crate::runtime::view::{container_view, pod_view};
use copepod_cri::v1 as cri;

struct Case {
    pod: Pod,
    state: RuntimePod,
    failures: HashMap<String, StartFailure>,
    probes: ProbeResults,
}

impl Case {
    fn new(spec: serde_json::Value, containers: &[(&str, cri::ContainerState, i32)]) -> Self {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "d", "uid": "u", "generation": 3}, "spec": spec
        }))
        .unwrap();
        let sandbox = cri::PodSandboxStatus {
            id: "s".to_owned(),
            network: Some(cri::PodSandboxNetworkStatus { ip: "10.0.0.2".to_owned(), ..Default::default() }),
            ..Default::default()
        };
        let views = containers.iter().enumerate().map(|(index, (name, state, code))| {
            let mut view = container_view(
                &cri::ContainerStatus {
                    id: format!("{name}{index}"),
                    image_ref: "sha256:1".to_owned(),
                    ..Default::default()
                },
                "s",
            );
            view.name = (*name).to_owned();
            view.state = *state;
            view.exit_code = *code;
            view.created_at = Timestamp::from_second(100 - i64::try_from(index).unwrap()).unwrap();
            view.started_at = view.created_at;
            view.reason = if *code == 0 { "Completed" } else { "Error" }.to_owned();
            view
        });
        let state = pod_view("u", vec![sandbox], views.collect());
        Self { pod, state, failures: HashMap::new(), probes: ProbeResults::default() }
    }

    fn render(&self, terminal: bool) -> PodStatus {
        render_status(StatusInput {
            pod: &self.pod,
            previous: None,
            state: &self.state,
            failures: &self.failures,
            probes: &self.probes,
            resize: &[],
            terminal,
            host_ips: &["192.0.2.1".parse().unwrap()],
            runtime_name: "containerd",
            now: Timestamp::UNIX_EPOCH,
        })
    }
}

use cri::ContainerState::{ContainerExited as Exited, ContainerRunning as Running};

fn conditions(status: &PodStatus) -> String {
    let short = |c: &PodCondition| format!("{}={}", c.type_, c.status);
    status.conditions.iter().flatten().map(short).collect::<Vec<_>>().join(" ")
}

#[test]
fn running_pod() {
    let case = Case::new(json!({"containers": [{"name": "c", "image": "i:1"}]}), &[("c", Running, 0)]);
    let status = case.render(false);
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.pod_ip.as_deref(), Some("10.0.0.2"));
    assert_eq!(status.host_ip.as_deref(), Some("192.0.2.1"));
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
    assert_eq!(
        conditions(&status),
        "PodReadyToStartContainers=True Initialized=True Ready=True ContainersReady=True PodScheduled=True"
    );
    let container = &status.container_statuses.unwrap()[0];
    assert_eq!(container.container_id.as_deref(), Some("containerd://c0"));
    assert!(container.ready && container.started == Some(true));
}

#[test]
fn phases_follow_policy_and_exit_codes() {
    let table: &[(&str, &[i32], bool, &str)] = &[
        ("Always", &[0], false, "Running"),
        ("Always", &[1], true, "Failed"),
        ("OnFailure", &[0], false, "Succeeded"),
        ("OnFailure", &[1], false, "Running"),
        ("Never", &[0, 0], false, "Succeeded"),
        ("Never", &[0, 1], false, "Failed"),
    ];
    for (policy, codes, terminal, phase) in table {
        let names: Vec<_> = (0..codes.len()).map(|i| format!("c{i}")).collect();
        let spec = json!({"restartPolicy": policy, "containers": names.iter().map(|n| json!({"name": n})).collect::<Vec<_>>()});
        let containers: Vec<_> = names.iter().zip(*codes).map(|(n, c)| (n.as_str(), Exited, *c)).collect();
        let status = Case::new(spec, &containers).render(*terminal);
        assert_eq!(status.phase.as_deref(), Some(*phase), "{policy} {codes:?}");
    }
}

#[test]
fn crash_loop_shows_waiting_and_the_run_before() {
    let mut case = Case::new(json!({"containers": [{"name": "c"}]}), &[("c", Exited, 3), ("c", Exited, 2)]);
    let failure = StartFailure { reason: "CrashLoopBackOff".to_owned(), message: "back-off 10s".to_owned() };
    case.failures.insert("c".to_owned(), failure);
    let status = case.render(false);
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let container = &status.container_statuses.as_ref().unwrap()[0];
    assert_eq!(
        container.state.as_ref().unwrap().waiting.as_ref().unwrap().reason.as_deref(),
        Some("CrashLoopBackOff")
    );
    assert_eq!(container.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 3);
    let ready = status.conditions.unwrap().into_iter().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!(ready.message.as_deref(), Some("containers with unready status: [c]"));
}

#[test]
fn readiness_probe_and_init_decide() {
    let spec = json!({
        "initContainers": [{"name": "i"}],
        "containers": [{"name": "c", "readinessProbe": {"tcpSocket": {"port": 1}}}]
    });
    let waiting = Case::new(spec.clone(), &[("i", Running, 0)]).render(false);
    assert_eq!(waiting.phase.as_deref(), Some("Pending"));
    assert!(conditions(&waiting).contains("Initialized=False"));
    let reason = waiting.container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap().reason;
    assert_eq!(reason.as_deref(), Some("PodInitializing"));
    let case = Case::new(spec, &[("c", Running, 0), ("i", Exited, 0)]);
    case.probes.begin("c0", ProbeKind::Readiness, false);
    assert!(conditions(&case.render(false)).contains(" Ready=False"));
    case.probes.set("u", "c0", ProbeKind::Readiness, ProbeResult::Success);
    let status = case.render(false);
    assert!(conditions(&status).contains(" Ready=True"));
    assert!(status.init_container_statuses.unwrap()[0].ready);
}

#[test]
fn transitions_keep_their_time() {
    let case = Case::new(json!({"containers": [{"name": "c"}]}), &[("c", Running, 0)]);
    let mut first = case.render(false);
    stamp_transitions(&mut first, None, Timestamp::from_second(5).unwrap());
    let mut second = case.render(false);
    second.conditions.as_mut().unwrap()[2].status = "False".to_owned();
    stamp_transitions(&mut second, Some(&first), Timestamp::from_second(9).unwrap());
    let times: Vec<_> = second
        .conditions
        .unwrap()
        .iter()
        .map(|c| c.last_transition_time.clone().unwrap().0.as_second())
        .collect();
    assert_eq!(times, [5, 5, 9, 5, 5]);
}

#[test]
fn finished_pod_is_terminal() {
    let case = Case::new(json!({"containers": [{"name": "c"}]}), &[("c", Exited, 137)]);
    assert_eq!(finished_status(&case.pod, case.render(true)).phase.as_deref(), Some("Failed"));
    let lost = Case::new(json!({"containers": [{"name": "c"}]}), &[]);
    let status = finished_status(&lost.pod, lost.render(true));
    let ended = status.container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
    assert_eq!(ended.reason.as_deref(), Some("ContainerStatusUnknown"));
}

#[test]
fn patch_replaces_addresses_and_clears_reasons() {
    let case = Case::new(json!({"containers": [{"name": "c"}]}), &[("c", Running, 0)]);
    let patch = manager::render_patch("x", &case.render(false));
    assert_eq!(patch["metadata"]["uid"], "x");
    assert_eq!(patch["status"]["podIPs"][0]["$patch"], "replace");
    assert_eq!(patch["status"]["conditions"][0]["reason"], serde_json::Value::Null);
    assert!(patch["status"].as_object().unwrap().contains_key("message"));
}
