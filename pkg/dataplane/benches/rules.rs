//! How long it takes to write the rules of many services, and to change one endpoint: `cargo bench -p copepod-dataplane`.

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/it/net.rs"]
mod net;

use std::time::Duration;

use copepod_dataplane::Mode;
use serde_json::json;

use net::{Net, Proxy, service};

fn fill(proxy: &mut Proxy, services: u32, endpoints: u32) {
    for index in 0..services {
        let ip = std::net::Ipv4Addr::from(0x0a60_1000 + index);
        proxy.service(&format!("s{index}"), service(&ip.to_string(), 0, json!({})));
        spread(proxy, index, endpoints, 0);
    }
}

fn spread(proxy: &mut Proxy, index: u32, endpoints: u32, shift: u32) {
    let list: Vec<_> = (0..endpoints)
        .map(|n| {
            let ip = std::net::Ipv4Addr::from(
                0x0af4_1000 + index * endpoints + n + if n == 0 { shift } else { 0 },
            );
            json!({ "addresses": [ip.to_string()], "nodeName": "n1" })
        })
        .collect();
    let view = serde_json::from_value(json!({
        "metadata": { "labels": { "kubernetes.io/service-name": format!("s{index}") } }, "addressType": "IPv4",
        "ports": [{ "name": "p", "protocol": "TCP", "port": 8080 }], "endpoints": list }))
    .expect("a slice");
    proxy.calc.on_slice("default", &format!("s{index}"), Some(&view));
}

#[expect(clippy::print_stdout, reason = "figures are what it is for")]
fn measure(mode: Mode, services: u32) {
    let net = Net::new(0);
    let mut proxy = Proxy::start(&net.node, mode);
    fill(&mut proxy, services, 10);
    let full = proxy.sync();
    let mut times: Vec<Duration> = (0..21)
        .map(|round| {
            spread(&mut proxy, round * 7, 10, 1_000_000 + round);
            proxy.sync()
        })
        .collect();
    times.sort_unstable();
    let nothing = proxy.sync();
    println!(
        "{} {services} services, {} endpoints: full {full:?}, one endpoint p50 {:?} max {:?}, nothing {nothing:?}",
        mode.name(),
        services * 10,
        times[10],
        times[20],
    );
    proxy.stop();
}

fn main() {
    for services in [1000, 5000] {
        measure(Mode::Nftables, services);
    }
    measure(Mode::Iptables, 1000);
}
