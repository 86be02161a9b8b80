//! A node with pods and an outside client, and a driver running in the node's namespace.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use copepod_dataplane::{Driver, LocalDetect, Mode, Settings};
use copepod_netcalc::{Calculator, Change, Family, NodeFacts, ServiceName, ServiceView, SliceView};
use serde_json::{Value, json};

use copepod_testkit::ns::{Ns, connect};

pub(crate) const NODE_IP: &str = "192.168.66.1";
pub(crate) const LAN_IP: &str = "192.168.66.2";

pub(crate) struct Net {
    pub(crate) node: Ns,
    pub(crate) lan: Ns,
    pub(crate) pods: Vec<Ns>,
}

impl Net {
    /// A node with `pods` pods at 10.244.0.1 and up.
    pub(crate) fn new(pods: u8) -> Self {
        let (node, lan) = (Ns::new("node"), Ns::new("lan"));
        connect((&node, "up0", "192.168.66.1/24"), (&lan, "up0", "192.168.66.2/24"));
        node.ip("route add default via 192.168.66.2");
        // Addresses of load balancers are reached by way of the node.
        lan.ip("route add 198.51.100.0/24 via 192.168.66.1");
        node.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("needs root"));
        let pods = (1..=pods).map(|n| pod(&node, n)).collect();
        Self { node, lan, pods }
    }
}

fn pod(node: &Ns, number: u8) -> Ns {
    let ns = Ns::new("pod");
    let host = format!("cali{number}");
    node.ip(&format!("link add {host} address ee:ee:ee:ee:ee:ee type veth peer name eth0 netns {}", ns.name));
    node.ip(&format!("link set {host} up"));
    node.ip(&format!("route add 10.244.0.{number} dev {host}"));
    ns.ip(&format!("addr add 10.244.0.{number}/32 dev eth0"));
    ns.ip("link set eth0 up");
    ns.ip("route add 169.254.1.1 dev eth0");
    ns.ip("route add default via 169.254.1.1");
    ns.ip("neigh add 169.254.1.1 lladdr ee:ee:ee:ee:ee:ee dev eth0 nud permanent");
    ns
}

/// Answers every TCP connection with "NAME PEER".
pub(crate) fn serve(ns: &Ns, name: &str, port: u16) {
    let (ready, wait) = mpsc::channel();
    let name = name.to_owned();
    ns.spawn(move || {
        let listener = TcpListener::bind(("0.0.0.0", port)).expect("the port is free");
        ready.send(()).expect("somebody waits");
        for stream in listener.incoming().flatten() {
            let mut stream: TcpStream = stream;
            let peer = stream.peer_addr().map(|a| a.ip().to_string()).unwrap_or_default();
            drop(stream.write_all(format!("{name} {peer}").as_bytes()));
        }
    });
    wait.recv().expect("the server started");
}

/// One connection's answer; errors are told by kind.
pub(crate) fn ask(ns: &Ns, target: &str) -> Result<String, std::io::ErrorKind> {
    let target: SocketAddr = target.parse().expect("an address");
    ns.run(move || {
        let mut stream =
            TcpStream::connect_timeout(&target, Duration::from_millis(1500)).map_err(|e| e.kind())?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).map_err(|e| e.kind())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|e| e.kind())?;
        Ok(answer)
    })
}

/// Sends datagrams from one socket; each answer, or "-".
pub(crate) fn udp_client(ns: &Ns, target: &str) -> (mpsc::Sender<()>, mpsc::Receiver<String>) {
    let (go, wait) = mpsc::channel::<()>();
    let (answer, answers) = mpsc::channel();
    let target = target.to_owned();
    ns.spawn(move || {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
        socket.set_read_timeout(Some(Duration::from_millis(700))).expect("a timeout");
        let mut buffer = [0; 64];
        while wait.recv().is_ok() {
            let got = socket.send_to(b"?", &target).and_then(|_| socket.recv_from(&mut buffer));
            let text = got
                .map_or_else(|_| "-".into(), |(len, _)| String::from_utf8_lossy(&buffer[..len]).into_owned());
            answer.send(text).expect("somebody waits");
        }
    });
    (go, answers)
}

pub(crate) fn serve_udp(ns: &Ns, name: &str, port: u16) {
    let socket = ns.run(move || UdpSocket::bind(("0.0.0.0", port)).expect("the port is free"));
    let name = name.to_owned();
    ns.spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            drop(socket.send_to(name.as_bytes(), from));
        }
    });
}

enum Order {
    Apply(Vec<Change>, mpsc::Sender<Duration>),
    Stop,
}

/// Calculator and driver, as the proxy joins them.
pub(crate) struct Proxy {
    pub(crate) calc: Calculator,
    orders: tokio::sync::mpsc::UnboundedSender<Order>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn settings() -> Settings {
    Settings {
        local: LocalDetect::ClusterCidr("10.244.0.0/16".parse().expect("a range")),
        service_ranges: vec!["10.96.0.0/12".parse().expect("a range")],
        ..Settings::default()
    }
}

impl Proxy {
    pub(crate) fn start(node: &Ns, mode: Mode) -> Self {
        let (orders, mut inbox) = tokio::sync::mpsc::unbounded_channel();
        let thread = node.spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
            runtime.block_on(async move {
                let mut driver = Driver::open(mode, settings()).await.expect("the driver opens");
                loop {
                    tokio::select! {
                        order = inbox.recv() => match order {
                            Some(Order::Apply(changes, done)) => {
                                let start = tokio::time::Instant::now();
                                driver.apply(&changes).await.unwrap_or_else(|e| panic!("{e}: {:?}", chain(&e)));
                                done.send(start.elapsed()).expect("somebody waits");
                            }
                            Some(Order::Stop) | None => return,
                        },
                        () = driver.drifted() => driver.resync().await.expect("the driver repairs"),
                    }
                }
            });
        });
        let facts = NodeFacts {
            name: "n1".into(),
            zone: String::new(),
            addresses: vec![NODE_IP.parse().expect("an address")],
        };
        Self { calc: Calculator::new(facts, &[Family::V4]), orders, thread: Some(thread) }
    }

    /// Hands all changes to the driver and waits; returns the time the driver took.
    pub(crate) fn sync(&mut self) -> Duration {
        let (done, wait) = mpsc::channel();
        let changes = self.calc.take_changes();
        assert!(self.orders.send(Order::Apply(changes, done)).is_ok(), "the driver runs");
        wait.recv().expect("the driver applied the changes")
    }

    pub(crate) fn service(&mut self, name: &str, object: Value) {
        let view: ServiceView = serde_json::from_value(object).expect("a service");
        self.calc.on_service(ServiceName::new("default", name), Some(view));
    }

    /// Endpoints `10.244.0.N:port`; a number with a `*` is local.
    pub(crate) fn endpoints(&mut self, service: &str, port: u16, protocol: &str, list: &[&str]) {
        let endpoints: Vec<Value> = list
            .iter()
            .map(|text| {
                let node = if text.ends_with('*') { "n1" } else { "elsewhere" };
                let ip = format!("10.244.0.{}", text.trim_end_matches('*'));
                json!({ "addresses": [ip], "conditions": { "ready": true }, "nodeName": node })
            })
            .collect();
        let view: SliceView = serde_json::from_value(json!({
            "metadata": { "name": service, "labels": { "kubernetes.io/service-name": service } },
            "addressType": "IPv4",
            "ports": [{ "name": "p", "protocol": protocol, "port": port }],
            "endpoints": endpoints,
        }))
        .expect("a slice");
        self.calc.on_slice("default", service, Some(&view));
    }

    pub(crate) fn stop(mut self) {
        drop(self.orders.send(Order::Stop));
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the driver ended well");
        }
    }
}

fn chain(error: &dyn std::error::Error) -> Vec<String> {
    std::iter::successors(error.source(), |e| e.source()).map(ToString::to_string).collect()
}

/// A Service object; `extra` is laid over its spec.
pub(crate) fn service(cluster_ip: &str, node_port: u16, extra: Value) -> Value {
    let mut object = json!({
        "metadata": { "name": "x", "namespace": "default" },
        "spec": {
            "type": if node_port == 0 { "ClusterIP" } else { "NodePort" },
            "clusterIP": cluster_ip,
            "ports": [{ "name": "p", "protocol": "TCP", "port": 80, "nodePort": node_port }],
        },
    });
    if let (Some(into), Value::Object(from)) = (object.as_object_mut(), extra) {
        for (key, value) in from {
            match (into.get_mut(&key).and_then(Value::as_object_mut), value) {
                (Some(old), Value::Object(new)) => old.extend(new),
                (_, value) => drop(into.insert(key, value)),
            }
        }
    }
    object
}
