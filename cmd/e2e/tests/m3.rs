//! M3: the node launches its own control plane.

use std::process::ExitCode;

use copepod_e2e::{Check, ensure, kubectl, node, wait_for};
use copepod_testkit::Cluster;

const COMPONENTS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

fn main() -> ExitCode {
    copepod_e2e::main(
        "m3",
        &[],
        &[
            ("mirror_pods_carry_the_nodes_name", mirror_pods),
            ("a_mirror_pod_cannot_be_edited", mirror_pod_is_read_only),
            ("the_node_is_ready_with_a_lease", lease),
            ("health_on_loopback_and_nothing_on_10255", health),
            ("metrics_are_for_certificates_and_not_for_nobody", metrics),
            ("pods_go_on_without_the_api_server_and_it_heals", api_server_manifest),
            ("restarting_the_agent_restarts_no_container", agent_restart),
        ],
    )
}

fn mirror_pods(cluster: &Cluster) -> Check {
    for component in COMPONENTS {
        let pod = format!("get pod -n kube-system {component}-m3 -o jsonpath={{.status.phase}}");
        wait_for(cluster, &pod, "Running")?;
    }
    Ok(())
}

fn mirror_pod_is_read_only(cluster: &Cluster) -> Check {
    let image = "set image -n kube-system pod/kube-scheduler-m3 kube-scheduler=example.com/other:1";
    let refused = kubectl(cluster, image);
    ensure(refused.is_err(), || "a mirror pod's image could be changed through the API".to_owned())
}

fn lease(cluster: &Cluster) -> Check {
    wait_for(cluster, "get lease -n kube-node-lease m3 -o jsonpath={.spec.holderIdentity}", "m3")
}

fn health(cluster: &Cluster) -> Check {
    let healthz = node(cluster, "curl -s http://127.0.0.1:10248/healthz")?;
    ensure(healthz == "ok", || format!("healthz said {healthz:?}"))?;
    let ports = node(cluster, "ss -ltn")?;
    ensure(!ports.contains(":10255"), || format!("something listens on :10255\n{ports}"))?;
    ensure(ports.contains("127.0.0.1:10248"), || format!("nothing on 127.0.0.1:10248\n{ports}"))?;
    let anonymous = node(cluster, "curl -sk -o /dev/null -w '%{http_code}' https://127.0.0.1:10250/pods")?;
    ensure(anonymous == "401", || format!(":10250 answered {anonymous} to nobody"))
}

fn metrics(cluster: &Cluster) -> Check {
    let client = "--cert /etc/kubernetes/pki/apiserver-kubelet-client.crt --key /etc/kubernetes/pki/apiserver-kubelet-client.key";
    for (port, name) in [(10257, "workqueue_depth"), (10259, "scheduler_")] {
        let url = format!("https://127.0.0.1:{port}/metrics");
        let text = node(cluster, &format!("curl -sk {client} {url}"))?;
        ensure(text.contains(name), || format!("{port} answered {text:?} to a certificate"))?;
        let nobody = node(cluster, &format!("curl -sk {url}"))?;
        let why = r#"forbidden: User \"system:anonymous\" cannot get path \"/metrics\""#;
        ensure(nobody.contains(why), || format!("{port} answered {nobody:?} to nobody"))?;
        let code = format!("curl -sk -o /dev/null -w '%{{http_code}}' -H 'Authorization: Bearer x' {url}");
        let code = node(cluster, &code)?;
        ensure(code == "401", || format!("{port} answered {code} to a wrong token"))?;
    }
    Ok(())
}

fn api_server_manifest(cluster: &Cluster) -> Check {
    let restarts = container_id(cluster, "kube-scheduler")?;
    node(cluster, "mv /etc/kubernetes/manifests/kube-apiserver.yaml /run/")?;
    cluster.wait_for("API server gone", || cluster.ask(&["get", "--raw=/readyz"]).is_none())?;
    ensure(container_id(cluster, "kube-scheduler")? == restarts, || {
        "the scheduler was restarted".to_owned()
    })?;
    node(cluster, "mv /run/kube-apiserver.yaml /etc/kubernetes/manifests/")?;
    cluster.wait_for("API server back", || cluster.ask(&["get", "--raw=/readyz"]).is_some())?;
    wait_for(cluster, "get pod -n kube-system kube-apiserver-m3 -o jsonpath={.status.phase}", "Running")
}

fn container_id(cluster: &Cluster, name: &str) -> Result<String, libtest_mimic::Failed> {
    let socket = "unix:///run/copepod/containerd/containerd.sock";
    node(cluster, &format!("crictl --runtime-endpoint {socket} ps -q --name '^{name}$' 2>/dev/null"))
}

fn agent_restart(cluster: &Cluster) -> Check {
    let ids = || COMPONENTS.iter().map(|c| container_id(cluster, c)).collect::<Result<Vec<_>, _>>();
    let before = ids()?;
    node(cluster, "pkill -KILL -f '[c]opepod server'")?;
    cluster.wait_for("agent back", || {
        node(cluster, "curl -s http://127.0.0.1:10248/healthz").is_ok_and(|text| text == "ok")
    })?;
    kubectl(cluster, "wait --for=condition=Ready node/m3 --timeout=60s")?;
    let after = ids()?;
    ensure(before == after, || format!("containers changed: {before:?} became {after:?}"))
}
