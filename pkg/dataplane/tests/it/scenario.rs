//! The same scenarios in both modes.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use copepod_dataplane::Mode;
use serde_json::json;

use crate::net::{LAN_IP, NODE_IP, Net, Proxy, ask, serve, serve_udp, service, udp_client};
use copepod_testkit::ns::{Ns, eventually};

const WEB: &str = "10.96.0.5:80";

/// Who answers `count` connections.
fn answers(ns: &Ns, target: &str, count: usize) -> BTreeSet<String> {
    (0..count)
        .map(|_| ask(ns, target).unwrap_or_else(|e| panic!("{target} from {}: {e:?}", ns.name)))
        .map(|answer| answer.split(' ').next().unwrap_or_default().to_owned())
        .collect()
}

fn both() -> BTreeSet<String> {
    BTreeSet::from(["a".into(), "b".into()])
}

fn web(mode: Mode) -> (Net, Proxy) {
    let net = Net::new(3);
    serve(&net.pods[0], "a", 8080);
    serve(&net.pods[1], "b", 8080);
    let mut proxy = Proxy::start(&net.node, mode);
    proxy.service("web", service("10.96.0.5", 30_080, json!({})));
    proxy.endpoints("web", 8080, "TCP", &["1*", "2*"]);
    proxy.sync();
    (net, proxy)
}

fn reaches_all_from_everywhere(mode: Mode) {
    let (net, mut proxy) = web(mode);
    assert_eq!(answers(&net.node, WEB, 24), both(), "from the node");
    assert_eq!(answers(&net.pods[2], WEB, 24), both(), "from a pod");
    assert_eq!(answers(&net.pods[0], WEB, 24), both(), "from an endpoint, itself included (hairpin)");
    assert_eq!(answers(&net.lan, &format!("{NODE_IP}:30080"), 24), both(), "node port from outside");
    assert_eq!(answers(&net.node, &format!("{NODE_IP}:30080"), 8).len().max(1), 2, "node port from the node");
    assert_eq!(ask(&net.pods[2], "10.96.0.5:81"), refused_or_lost(mode), "a port that no Service has");
    // An echo request is no new connection to a Service port: nobody answers.
    let ping = copepod_sys::command("ip")
        .args(["netns", "exec", &net.pods[2].name, "python3", "-c", PING])
        .output()
        .expect("python3 is installed");
    assert_eq!(String::from_utf8_lossy(&ping.stdout).trim(), "unanswered");

    proxy.endpoints("web", 8080, "TCP", &["2*"]);
    proxy.sync();
    assert_eq!(answers(&net.pods[2], WEB, 12), BTreeSet::from(["b".into()]), "after one endpoint went");
    proxy.endpoints("web", 8080, "TCP", &[]);
    proxy.sync();
    for (ns, target) in [(&net.pods[2], WEB), (&net.node, WEB), (&net.lan, "192.168.66.1:30080")] {
        assert_eq!(
            ask(ns, target),
            Err(ErrorKind::ConnectionRefused),
            "{target} from {} without endpoints",
            ns.name
        );
    }
    proxy.stop();
}

const PING: &str = "
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.settimeout(0.7)
body = struct.pack('!BBHHH', 8, 0, 0, 7, 1)
total = sum(struct.unpack('!4H', body))
total = (total & 0xffff) + (total >> 16)
s.sendto(struct.pack('!BBHHH', 8, 0, ~total & 0xffff, 7, 1), ('10.96.0.5', 0))
try:
    while True:
        data, _ = s.recvfrom(1500)
        if data[20] == 0:
            print('answered'); break
except socket.timeout:
    print('unanswered')
";

/// An unused port of a cluster address is refused by nftables; iptables does not know it and it leads nowhere.
fn refused_or_lost(mode: Mode) -> Result<String, ErrorKind> {
    Err(match mode {
        Mode::Nftables => ErrorKind::ConnectionRefused,
        Mode::Iptables => ErrorKind::TimedOut,
    })
}

fn keeps_clients_and_addresses(mode: Mode) {
    let (net, mut proxy) = web(mode);
    let affinity = json!({ "spec": { "sessionAffinity": "ClientIP" } });
    proxy.service("web", service("10.96.0.5", 30_080, affinity));
    proxy.sync();
    assert_eq!(answers(&net.pods[2], WEB, 12).len(), 1, "a client stays with its endpoint");

    // Only the second pod counts as local: outside clients keep their address, pods reach both.
    let local = json!({ "spec": { "externalTrafficPolicy": "Local" } });
    proxy.service("web", service("10.96.0.5", 30_080, local));
    proxy.endpoints("web", 8080, "TCP", &["1", "2*"]);
    proxy.sync();
    let outside = format!("{NODE_IP}:30080");
    for _ in 0..8 {
        assert_eq!(ask(&net.lan, &outside).as_deref(), Ok(format!("b {LAN_IP}").as_str()));
    }
    assert_eq!(answers(&net.pods[2], WEB, 24), both());

    // None is local: outside clients are dropped, pods and the node go on.
    proxy.endpoints("web", 8080, "TCP", &["1", "2"]);
    proxy.sync();
    assert_eq!(ask(&net.lan, &outside), Err(ErrorKind::TimedOut));
    assert_eq!(answers(&net.pods[2], &outside, 24), both());
    assert_eq!(answers(&net.node, &outside, 24), both());

    let internal = json!({ "spec": { "internalTrafficPolicy": "Local" } });
    proxy.service("web", service("10.96.0.5", 0, internal));
    proxy.endpoints("web", 8080, "TCP", &["1", "2*"]);
    proxy.sync();
    assert_eq!(answers(&net.pods[2], WEB, 12), BTreeSet::from(["b".into()]));
    proxy.stop();
}

fn load_balancers_have_a_guest_list(mode: Mode) {
    let (net, mut proxy) = web(mode);
    let balancer = |range: &str| {
        json!({ "spec": { "type": "LoadBalancer", "loadBalancerSourceRanges": [range] },
            "status": { "loadBalancer": { "ingress": [{ "ip": "198.51.100.7" }] } } })
    };
    proxy.service("web", service("10.96.0.5", 30_080, balancer("192.168.66.0/24")));
    proxy.sync();
    assert_eq!(answers(&net.lan, "198.51.100.7:80", 24), both());
    proxy.service("web", service("10.96.0.5", 30_080, balancer("172.16.0.0/12")));
    proxy.sync();
    assert_eq!(ask(&net.lan, "198.51.100.7:80"), Err(ErrorKind::TimedOut));
    assert_eq!(answers(&net.lan, &format!("{NODE_IP}:30080"), 24), both(), "the node port has no list");
    proxy.stop();
}

fn forgets_stale_flows(mode: Mode) {
    let net = Net::new(3);
    serve_udp(&net.pods[0], "a", 5353);
    serve_udp(&net.pods[1], "b", 5353);
    let mut proxy = Proxy::start(&net.node, mode);
    let udp = json!({ "spec": { "ports": [{ "name": "p", "protocol": "UDP", "port": 53 }] } });
    proxy.service("dns", service("10.96.0.10", 0, udp));
    proxy.endpoints("dns", 5353, "UDP", &["1*"]);
    proxy.sync();
    let (go, got) = udp_client(&net.pods[2], "10.96.0.10:53");
    let next = || {
        go.send(()).expect("the client runs");
        got.recv().expect("the client answers")
    };
    assert_eq!(next(), "a");
    proxy.endpoints("dns", 5353, "UDP", &["2*"]);
    proxy.sync();
    assert_eq!(next(), "b", "the same socket, another endpoint");
    proxy.endpoints("dns", 5353, "UDP", &[]);
    proxy.sync();
    assert_eq!(next(), "-", "no endpoint is left");
    proxy.endpoints("dns", 5353, "UDP", &["1*"]);
    proxy.sync();
    eventually("the first endpoint answers again", || next() == "a");
    proxy.stop();
}

fn takes_hundreds_of_endpoints(mode: Mode) {
    let (net, mut proxy) = web(mode);
    let many: Vec<String> = (1..=220).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    proxy.endpoints("web", 8080, "TCP", &many);
    proxy.sync();
    for keep in [219, 110, 5, 2] {
        proxy.endpoints("web", 8080, "TCP", &many[..keep]);
        proxy.sync();
    }
    assert_eq!(answers(&net.pods[2], WEB, 24), both());
    proxy.stop();
}

macro_rules! in_both_modes {
    ($($name:ident),* $(,)?) => {
        mod nftables { $(#[test] fn $name() { super::$name(copepod_dataplane::Mode::Nftables); })* }
        mod iptables { $(#[test] fn $name() { super::$name(copepod_dataplane::Mode::Iptables); })* }
    };
}

in_both_modes!(
    reaches_all_from_everywhere,
    keeps_clients_and_addresses,
    load_balancers_have_a_guest_list,
    forgets_stale_flows,
    takes_hundreds_of_endpoints,
);

#[test]
fn a_flushed_nftables_table_comes_back() {
    let (net, proxy) = web(Mode::Nftables);
    for damage in ["nft delete table ip kube-proxy", "nft flush table ip kube-proxy", "nft flush ruleset"] {
        net.node.exec(damage);
        eventually(damage, || ask(&net.node, WEB).is_ok());
    }
    proxy.stop();
}

#[test]
fn flushed_iptables_come_back() {
    let (net, proxy) = web(Mode::Iptables);
    for damage in ["iptables -t nat -F KUBE-SERVICES", "iptables -t nat -F", "nft flush ruleset"] {
        net.node.exec(damage);
        eventually(damage, || ask(&net.node, WEB).is_ok());
    }
    proxy.stop();
}

#[test]
fn the_seeds_commands_show_the_chains() {
    let (net, proxy) = web(Mode::Iptables);
    let list = net.node.exec("iptables -t nat -L KUBE-SERVICES -n --line-numbers");
    assert!(list.contains("10.96.0.5") && list.contains("KUBE-SVC-"), "{list}");
    let last = list.lines().last().unwrap_or_default();
    assert!(last.contains("KUBE-NODEPORTS"), "{last}");
    let saved = net.node.exec("iptables-save");
    assert!(
        saved.lines().any(|l| l.contains("KUBE-SEP-") && l.contains("--to-destination 10.244.0.1:8080")),
        "{saved}"
    );
    assert!(saved.contains("--mode random --probability 0.5000000"), "{saved}");
    assert!(net.node.exec("nft list table ip nat").contains("KUBE-SERVICES"));
    proxy.stop();
    let proxy = Proxy::start(&net.node, Mode::Nftables);
    let mut proxy = proxy;
    proxy.sync();
    let table = net.node.exec("nft list table ip kube-proxy");
    assert!(table.contains("map service-ips"), "{table}");
    assert!(!net.node.exec("iptables-save").contains("KUBE-S"), "the other mode's rules are gone");
    proxy.stop();
    let mut proxy = Proxy::start(&net.node, Mode::Iptables);
    proxy.sync();
    assert!(!net.node.exec("nft list tables").contains("kube-proxy"));
    proxy.stop();
}
