//! A node with the agent's address service in it, and pods attached by the plugin's own code.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;

use copepod_cni::{CniError, NodeStore, ipam, plugin};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use copepod_testkit::ns::{Ns, eventually};

pub(crate) struct Node {
    pub(crate) ns: Ns,
    dir: tempfile::TempDir,
    range: String,
    agent: Option<(CancellationToken, JoinHandle<()>)>,
}

pub(crate) struct Pod {
    pub(crate) ns: Ns,
    name: String,
    id: String,
    path: PathBuf,
}

impl Node {
    pub(crate) fn start(range: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut node = Self { ns: Ns::new("node"), dir, range: range.into(), agent: None };
        // A node has an address of its own, if only on lo; these have no uplink and no default route.
        node.ns.ip("addr add 192.168.66.1/32 dev lo");
        node.restart();
        node
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("cni.sock")
    }

    pub(crate) fn restart(&mut self) {
        let shutdown = CancellationToken::new();
        let config = ipam::Config { socket: self.socket(), ranges: vec![self.range.parse().unwrap()] };
        let store = self.dir.path().join("store");
        let token = shutdown.clone();
        let (done, ended) = mpsc::channel();
        let thread = self.ns.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let store = NodeStore::open(&store).unwrap();
            let result = runtime.block_on(ipam::serve(store, config, token));
            done.send(()).unwrap_or_default();
            result.unwrap();
        });
        let socket = self.socket();
        eventually("the agent listens", || ended.try_recv().is_ok() || socket.exists());
        assert!(socket.exists(), "the agent failed: {:?}", thread.join());
        self.agent = Some((shutdown, thread));
    }

    pub(crate) fn stop(&mut self) {
        if let Some((token, thread)) = self.agent.take() {
            token.cancel();
            thread.join().unwrap();
        }
    }

    pub(crate) fn pod(&self, name: &str) -> Pod {
        self.sandbox(name, name)
    }

    pub(crate) fn sandbox(&self, name: &str, id: &str) -> Pod {
        let ns = Ns::new("pod");
        let path = ns.path();
        Pod { ns, name: name.into(), id: id.into(), path }
    }

    fn call(&self, env: BTreeMap<String, String>, conf: Value) -> Result<Value, CniError> {
        self.ns.run(move || {
            let input = serde_json::to_vec(&conf).unwrap();
            plugin::run(|name| env.get(name).cloned(), &input).map(Option::unwrap_or_default)
        })
    }

    fn conf(&self, runtime: &str) -> Value {
        let runtime: Value = serde_json::from_str(runtime).unwrap();
        json!({ "cniVersion": "1.1.0", "name": "k8s-pod-network", "type": "calico", "ipam": { "type": "calico-ipam" },
            "socket": self.socket(), "runtimeConfig": runtime })
    }

    pub(crate) fn status(&self) -> Result<Value, CniError> {
        self.call(BTreeMap::from([("CNI_COMMAND".into(), "STATUS".into())]), self.conf("{}"))
    }

    pub(crate) fn gc(&self, valid: &[(&str, &str)]) -> Result<Value, CniError> {
        let valid: Vec<_> =
            valid.iter().map(|(id, ifname)| json!({"containerID": id, "ifname": ifname})).collect();
        let mut conf = self.conf("{}");
        conf["cni.dev/valid-attachments"] = valid.into();
        self.call(BTreeMap::from([("CNI_COMMAND".into(), "GC".into())]), conf)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Pod {
    fn env(&self, command: &str) -> BTreeMap<String, String> {
        [
            ("CNI_COMMAND", command.to_owned()),
            ("CNI_CONTAINERID", self.id.clone()),
            ("CNI_IFNAME", "eth0".into()),
            ("CNI_NETNS", self.path.display().to_string()),
            ("CNI_ARGS", format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={}", self.name)),
        ]
        .map(|(k, v)| (k.to_owned(), v))
        .into()
    }

    pub(crate) fn add(&self, node: &Node, runtime: &str) -> Result<Value, CniError> {
        node.call(self.env("ADD"), node.conf(runtime))
    }

    pub(crate) fn del(&self, node: &Node) -> Result<Value, CniError> {
        node.call(self.env("DEL"), node.conf("{}"))
    }

    pub(crate) fn check(&self, node: &Node, previous: &Value) -> Result<Value, CniError> {
        let mut conf = node.conf("{}");
        conf["prevResult"] = previous.clone();
        node.call(self.env("CHECK"), conf)
    }

    /// Removes the namespace under the pod's feet.
    pub(crate) fn drop_netns(&mut self) {
        self.ns = Ns::new("spare");
    }
}
