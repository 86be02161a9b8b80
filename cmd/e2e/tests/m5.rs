//! M5: Services and names, in nftables mode.

use std::process::ExitCode;

use copepod_e2e::{Check, ensure, kubectl, node, shell, wait_for};
use copepod_testkit::{Cluster, Side};

fn main() -> ExitCode {
    copepod_e2e::main(
        "m5",
        &[],
        &[
            ("a_web_service_runs", copepod_e2e::web),
            ("a_cluster_ip_answers_curl_and_not_ping", cluster_ip),
            ("names_resolve_in_pods", names),
            ("a_pod_reaches_itself_through_its_service", hairpin),
            ("a_node_port_answers_a_neighbour", copepod_e2e::node_port),
            ("a_load_balancer_has_the_nodes_address", load_balancer),
            ("slices_and_endpoints_are_as_the_seed_shows", slices),
            ("pods_are_wired_as_the_seed_shows", wiring),
            ("the_table_is_there_and_comes_back_when_flushed", repair),
            ("a_service_without_endpoints_refuses", refused),
        ],
    )
}

fn cluster_ip(cluster: &Cluster) -> Check {
    let address = copepod_e2e::address(cluster)?;
    copepod_e2e::fetch(cluster, Side::Node, &format!("http://{address}"))?;
    let ping = |target: &str| shell(cluster, Side::Node, &format!("busybox ping -c 1 -W 1 {target}"));
    let pod = kubectl(cluster, "get pods -l app=web -o jsonpath={.items[0].status.podIP}")?;
    let (answered, text) = ping(&pod)?;
    ensure(answered, || format!("a pod does not answer ping: {text}"))?;
    let (answered, text) = ping(&address)?;
    ensure(!answered, || format!("a ClusterIP answered ping: {text}"))
}

fn names(cluster: &Cluster) -> Check {
    let pod = copepod_e2e::web_pod(cluster)?;
    for url in ["http://web", "http://web.default", "http://web.default.svc.cluster.local"] {
        let page = cluster.run(&["exec", &pod, "--", "wget", "-q", "-O-", url], "")?;
        ensure(page == "page", || format!("{url} gave {page:?}"))?;
    }
    let missing = cluster.run(&["exec", &pod, "--", "nslookup", "nothing.default.svc.cluster.local"], "");
    ensure(missing.is_err(), || "a name that does not exist resolved".to_owned())
}

fn hairpin(cluster: &Cluster) -> Check {
    kubectl(cluster, "scale deployment/web --replicas=1")?;
    let one = |text: String| !text.is_empty() && !text.contains(' ');
    let addresses = ["get", "endpoints", "web", "-o=jsonpath={.subsets[*].addresses[*].ip}"];
    cluster.wait_for("one endpoint", || cluster.ask(&addresses).is_some_and(one))?;
    let pod = copepod_e2e::web_pod(cluster)?;
    let address = copepod_e2e::address(cluster)?;
    let url = format!("http://{address}");
    cluster.wait_for("hairpin", || {
        cluster.ask(&["exec", &pod, "--", "timeout", "2", "wget", "-q", "-O-", &url]).as_deref()
            == Some("page")
    })?;
    kubectl(cluster, "scale deployment/web --replicas=3")?;
    kubectl(cluster, "rollout status deployment/web --timeout=90s")?;
    Ok(())
}

fn load_balancer(cluster: &Cluster) -> Check {
    kubectl(cluster, "expose deployment web --name=lb --type=LoadBalancer --port=8081 --target-port=8080")?;
    let node_address = cluster.node.address().to_string();
    wait_for(cluster, "get service lb -o jsonpath={.status.loadBalancer.ingress[0].ip}", &node_address)?;
    copepod_e2e::fetch(cluster, Side::Lan, &format!("http://{node_address}:8081"))
}

fn slices(cluster: &Cluster) -> Check {
    let slice = kubectl(cluster, "get endpointslices -l kubernetes.io/service-name=web -o yaml")?;
    for want in ["addressType: IPv4", "serving: true", "terminating: false", "ready: true", "nodeName: m5"] {
        ensure(slice.contains(want), || format!("{want:?} is missing in\n{slice}"))?;
    }
    let legacy = kubectl(cluster, "get endpoints web -o jsonpath={.subsets[0].ports[0].port}")?;
    ensure(legacy == "8080", || format!("legacy Endpoints have port {legacy:?}"))
}

fn wiring(cluster: &Cluster) -> Check {
    let pod = copepod_e2e::web_pod(cluster)?;
    let inside = cluster.run(&["exec", &pod, "--", "ip", "route"], "")?;
    ensure(inside.contains("default via 169.254.1.1"), || format!("routes in the pod: {inside}"))?;
    let ip = kubectl(cluster, &format!("get pod {pod} -o jsonpath={{.status.podIP}}"))?;
    let addresses = cluster.run(&["exec", &pod, "--", "ip", "addr", "show", "eth0"], "")?;
    ensure(addresses.contains(&format!("{ip}/32")), || format!("eth0 has {addresses}"))?;
    let routes = node(cluster, "ip route")?;
    let route = routes.lines().find(|line| line.starts_with(&format!("{ip} dev cali")));
    ensure(route.is_some(), || format!("no host route to {ip} in\n{routes}"))
}

fn repair(cluster: &Cluster) -> Check {
    node(cluster, "nft list table ip kube-proxy")?;
    node(cluster, "nft flush table ip kube-proxy && nft delete table ip kube-proxy")?;
    let address = copepod_e2e::address(cluster)?;
    copepod_e2e::fetch(cluster, Side::Node, &format!("http://{address}"))
}

fn refused(cluster: &Cluster) -> Check {
    kubectl(cluster, "create service clusterip empty --tcp=80")?;
    let address = kubectl(cluster, "get service empty -o jsonpath={.spec.clusterIP}")?;
    cluster.wait_for("refusal", || {
        let curl = format!("curl -sS --max-time 2 http://{address}");
        shell(cluster, Side::Node, &curl)
            .is_ok_and(|(_, text)| text.contains("Couldn't connect") || text.contains("refused"))
    })?;
    Ok(())
}
