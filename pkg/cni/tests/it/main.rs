//! The plugin and the agent together, in network namespaces of their own.
#![expect(clippy::unwrap_used, reason = "the whole binary is a test: a failed step is a failed test")]

mod node;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use copepod_testkit::ns::{Ns, connect, eventually};
use node::{Node, Pod};

/// Answers every connection with the peer's address until the test ends.
fn serve_whoami(pod: &Pod, port: u16) {
    let (ready, wait) = std::sync::mpsc::channel();
    pod.ns.spawn(move || {
        let listener = TcpListener::bind(("0.0.0.0", port)).unwrap();
        ready.send(()).unwrap();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let peer = stream.peer_addr().unwrap().ip().to_string();
            drop(stream.write_all(peer.as_bytes()));
        }
    });
    wait.recv().unwrap();
}

fn ask(ns: &Ns, target: &str) -> std::io::Result<String> {
    let target: SocketAddr = target.parse().unwrap();
    ns.run(move || {
        let mut stream = TcpStream::connect_timeout(&target, Duration::from_secs(2))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    })
}

#[test]
fn pods_reach_each_other_and_the_node_and_the_result_is_complete() {
    let node = Node::start("10.77.0.0/24");
    let (a, b) = (node.pod("a"), node.pod("b"));
    let first = a.add(&node, "{}").unwrap();
    b.add(&node, "{}").unwrap();
    assert_eq!(first["ips"][0]["address"], "10.77.0.1/32");
    assert_eq!(first["ips"][0]["interface"], 1);
    let host = first["interfaces"][0]["name"].as_str().unwrap().to_owned();
    assert!(host.starts_with("cali") && host.len() == 15, "{host}");
    assert_eq!(first["interfaces"][1]["name"], "eth0");
    assert_eq!(first["interfaces"][1]["mtu"], 1500);
    assert!(node.ns.ip("route").contains(&format!("10.77.0.1 dev {host} scope link")));
    assert!(node.ns.ip(&format!("link show {host}")).contains("ee:ee:ee:ee:ee:ee"));
    let routes = a.ns.ip("route");
    assert!(routes.contains("default via 169.254.1.1 dev eth0"), "{routes}");
    assert!(a.ns.ip("addr show eth0").contains("10.77.0.1/32"));

    serve_whoami(&b, 80);
    assert_eq!(ask(&a.ns, "10.77.0.2:80").unwrap(), "10.77.0.1", "no masquerade between pods");
    assert!(ask(&node.ns, "10.77.0.2:80").is_ok(), "the node reaches its pods");
    assert_eq!(ask(&b.ns, "10.77.0.2:80").unwrap(), "10.77.0.2");
    a.check(&node, &first).unwrap();
}

#[test]
fn traffic_that_leaves_the_pod_range_is_masqueraded() {
    let node = Node::start("10.77.0.0/24");
    let outside = Ns::new("lan");
    connect((&node.ns, "up0", "192.168.77.1/24"), (&outside, "up0", "192.168.77.2/24"));
    node.ns.ip("link set up0 mtu 1400");
    node.ns.ip("route add default via 192.168.77.2");
    let pod = node.pod("a");
    let result = pod.add(&node, "{}").unwrap();
    assert_eq!(result["interfaces"][1]["mtu"], 1400, "the uplink's MTU");
    let server = outside.run(|| TcpListener::bind("192.168.77.2:80").unwrap());
    let thread = std::thread::spawn(move || server.accept().unwrap().1.ip().to_string());
    pod.ns.run(|| TcpStream::connect("192.168.77.2:80").unwrap());
    assert_eq!(thread.join().unwrap(), "192.168.77.1");
}

#[test]
fn host_ports_answer_outside_on_loopback_and_for_the_pod_itself() {
    let node = Node::start("10.77.0.0/24");
    let outside = Ns::new("lan");
    connect((&node.ns, "up0", "192.168.77.1/24"), (&outside, "up0", "192.168.77.2/24"));
    let pod = node.pod("web");
    let ports = r#"{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"},
        {"hostPort":8081,"containerPort":80,"protocol":"tcp","hostIP":"127.0.0.1"},
        {"hostPort":5353,"containerPort":53,"protocol":"udp"}]}"#;
    pod.add(&node, ports).unwrap();
    serve_whoami(&pod, 80);
    assert_eq!(ask(&outside, "192.168.77.1:8080").unwrap(), "192.168.77.2", "the client's address is kept");
    assert!(ask(&outside, "192.168.77.1:8081").is_err(), "hostIP is respected");
    assert!(ask(&node.ns, "127.0.0.1:8080").is_ok());
    assert!(ask(&node.ns, "127.0.0.1:8081").is_ok());
    assert!(ask(&pod.ns, "192.168.77.1:8080").is_ok(), "a pod through its own host port");

    let udp = pod.ns.run(|| UdpSocket::bind("0.0.0.0:53").unwrap());
    let got = outside.run(move || {
        let client = UdpSocket::bind("0.0.0.0:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        client.send_to(b"ping", "192.168.77.1:5353").unwrap();
        let mut buffer = [0; 16];
        let (len, from) = udp.recv_from(&mut buffer).unwrap();
        udp.send_to(&buffer[..len], from).unwrap();
        let (_, from) = client.recv_from(&mut buffer).unwrap();
        from.to_string()
    });
    assert_eq!(got, "192.168.77.1:5353");

    pod.del(&node).unwrap();
    assert!(ask(&outside, "192.168.77.1:8080").is_err(), "DEL takes the port back");
}

#[test]
fn a_second_sandbox_replaces_the_first_and_its_late_del_does_no_harm() {
    let node = Node::start("10.77.0.0/24");
    let old = node.pod("same");
    old.add(&node, "{}").unwrap();
    let new = node.sandbox("same", "second");
    let result = new.add(&node, "{}").unwrap();
    assert_eq!(result["ips"][0]["address"], "10.77.0.2/32", "a new sandbox has a new address");
    old.del(&node).unwrap();
    old.del(&node).unwrap();
    serve_whoami(&new, 80);
    assert!(ask(&node.ns, "10.77.0.2:80").is_ok());
}

#[test]
fn del_succeeds_with_the_namespace_gone_and_gc_frees_after_a_reboot() {
    let node = Node::start("10.77.0.0/29");
    for index in 0..6 {
        let pod = node.sandbox(&format!("p{index}"), &format!("id{index}"));
        pod.add(&node, "{}").unwrap();
        if index == 0 {
            let mut gone = pod;
            gone.drop_netns();
            gone.del(&node).unwrap();
        }
    }
    let more = node.pod("more");
    more.add(&node, "{}").unwrap();
    let full = node.pod("full");
    let error = full.add(&node, "{}").unwrap_err();
    assert!(error.details.contains("failed to request 1 IPv4 addresses. IPAM allocated only 0"), "{error}");
    assert_eq!(node.status().unwrap_err().code, 50);
    node.gc(&[("more", "eth0")]).unwrap();
    node.status().unwrap();
    full.add(&node, "{}").unwrap();
}

#[test]
fn check_names_what_was_tampered_with() {
    let node = Node::start("10.77.0.0/24");
    let pod = node.pod("a");
    let result = pod.add(&node, "{}").unwrap();
    pod.check(&node, &result).unwrap();
    pod.ns.ip("route del default");
    assert!(pod.check(&node, &result).unwrap_err().details.contains("no default route"));
    pod.ns.ip("addr del 10.77.0.1/32 dev eth0");
    assert!(pod.check(&node, &result).unwrap_err().details.contains("has lost 10.77.0.1"));
    node.ns.ip("route del 10.77.0.1");
    assert!(pod.check(&node, &result).unwrap_err().details.contains("no route to 10.77.0.1"));
}

#[test]
fn the_agent_keeps_its_book_over_a_restart_and_its_absence_is_try_again() {
    let mut node = Node::start("10.77.0.0/24");
    let pod = node.pod("a");
    let result = pod.add(&node, "{}").unwrap();
    node.stop();
    assert_eq!(node.pod("b").add(&node, "{}").unwrap_err().code, 11);
    node.restart();
    pod.check(&node, &result).unwrap();
    assert_eq!(node.pod("b").add(&node, "{}").unwrap()["ips"][0]["address"], "10.77.0.2/32");
}

#[test]
fn a_flushed_table_is_restored() {
    let node = Node::start("10.77.0.0/24");
    node.ns.exec("nft flush ruleset");
    eventually("the table is back", || {
        node.ns.exec("nft list tables").contains("copepod-cni")
            && node.ns.exec("nft list table ip copepod-cni").contains("masquerade")
    });
}

#[test]
fn missing_namespace_and_taken_interface_are_errors() {
    let node = Node::start("10.77.0.0/24");
    let mut gone = node.pod("gone");
    gone.drop_netns();
    assert_eq!(gone.add(&node, "{}").unwrap_err().code, 3);
    let taken = node.pod("taken");
    taken.ns.ip("link add eth0 type veth peer name eth1");
    assert!(taken.add(&node, "{}").unwrap_err().details.contains("already has an interface eth0"));
    // The failed ADD gave its address back: all 254 minus none are free, so the next pod has the second one.
    let next = node.pod("next").add(&node, "{}").unwrap();
    assert_eq!(next["ips"][0]["address"], "10.77.0.2/32");
}

#[test]
fn bandwidth_limits_sit_on_both_ends() {
    let node = Node::start("10.77.0.0/24");
    let pod = node.pod("slow");
    let limits = r#"{"bandwidth":{"ingressRate":8000000,"ingressBurst":800000,"egressRate":4000000,"egressBurst":400000}}"#;
    let result = pod.add(&node, limits).unwrap();
    let host = result["interfaces"][0]["name"].as_str().unwrap();
    let outer = run_tc(&node.ns, host);
    assert!(outer.contains("tbf") && outer.contains("rate 8Mbit"), "{outer}");
    assert!(run_tc(&pod.ns, "eth0").contains("rate 4Mbit"));
}

fn run_tc(ns: &Ns, device: &str) -> String {
    ns.exec(&format!("tc qdisc show dev {device}"))
}
