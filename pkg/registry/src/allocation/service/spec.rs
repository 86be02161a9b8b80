//! The fields of a Service's spec that allocation reads and writes.

use copepod_api::meta;
use serde_json::{Value, json};

/// One port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Port {
    pub(super) port: i64,
    pub(super) protocol: String,
    pub(super) node_port: i64,
}

/// The part of a spec that allocation looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Spec {
    pub(super) type_: String,
    pub(super) cluster_ip: String,
    pub(super) cluster_ips: Vec<String>,
    pub(super) families: Vec<String>,
    pub(super) policy: Option<String>,
    pub(super) selects: bool,
    pub(super) ports: Vec<Port>,
    pub(super) health_port: i64,
    pub(super) local: bool,
    pub(super) allocate_node_ports: bool,
}

impl Spec {
    /// Reads a Service.
    pub(super) fn read(service: &Value) -> Self {
        let spec = service.get("spec").cloned().unwrap_or_default();
        let text = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let list = |field: &str| -> Vec<String> {
            let items = spec.get(field).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let port = |port: &Value| Port {
            port: port.get("port").and_then(Value::as_i64).unwrap_or(0),
            protocol: port.get("protocol").and_then(Value::as_str).unwrap_or("TCP").to_owned(),
            node_port: port.get("nodePort").and_then(Value::as_i64).unwrap_or(0),
        };
        Self {
            type_: Some(text("type")).filter(|t| !t.is_empty()).unwrap_or_else(|| "ClusterIP".to_owned()),
            cluster_ip: text("clusterIP"),
            cluster_ips: list("clusterIPs"),
            families: list("ipFamilies"),
            policy: Some(text("ipFamilyPolicy")).filter(|p| !p.is_empty()),
            selects: spec.get("selector").and_then(Value::as_object).is_some_and(|s| !s.is_empty()),
            ports: spec.get("ports").and_then(Value::as_array).into_iter().flatten().map(port).collect(),
            health_port: spec.get("healthCheckNodePort").and_then(Value::as_i64).unwrap_or(0),
            local: text("externalTrafficPolicy") == "Local",
            allocate_node_ports: spec
                .get("allocateLoadBalancerNodePorts")
                .and_then(Value::as_bool)
                .unwrap_or(true),
        }
    }

    /// Writes what allocation decides back into the Service.
    pub(super) fn write(&self, service: &mut Value) {
        let Some(map) = service.as_object_mut() else { return };
        let spec = meta::child_mut(map, "spec");
        let mut put = |field: &str, value: Value, empty: bool| {
            crate::metadata::set(spec, field, (!empty).then_some(value));
        };
        put("clusterIP", self.cluster_ip.clone().into(), self.cluster_ip.is_empty());
        put("clusterIPs", json!(self.cluster_ips), self.cluster_ips.is_empty());
        put("ipFamilies", json!(self.families), self.families.is_empty());
        put("ipFamilyPolicy", json!(self.policy), self.policy.is_none());
        put("healthCheckNodePort", self.health_port.into(), self.health_port == 0);
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
        for (value, port) in ports.zip(&self.ports) {
            if let Some(value) = value.as_object_mut() {
                crate::metadata::set(value, "nodePort", (port.node_port != 0).then(|| port.node_port.into()));
            }
        }
    }

    pub(super) fn external_name(&self) -> bool {
        self.type_ == "ExternalName"
    }

    pub(super) fn headless(&self) -> bool {
        self.cluster_ips.first().is_some_and(|ip| ip == "None")
    }

    pub(super) fn has_node_ports(&self) -> bool {
        matches!(self.type_.as_str(), "NodePort" | "LoadBalancer")
    }

    /// Whether ports without a node port get one.
    pub(super) fn wants_node_ports(&self) -> bool {
        self.type_ == "NodePort" || (self.type_ == "LoadBalancer" && self.allocate_node_ports)
    }

    pub(super) fn needs_health_port(&self) -> bool {
        self.type_ == "LoadBalancer" && self.local
    }

    /// Addresses that are allocated for this Service.
    pub(super) fn addresses(&self) -> Vec<String> {
        if self.external_name() || self.headless() { Vec::new() } else { self.cluster_ips.clone() }
    }

    /// Node ports of its ports.
    pub(super) fn node_ports(&self) -> Vec<i64> {
        self.ports.iter().map(|port| port.node_port).filter(|port| *port != 0).collect()
    }

    /// All node ports, the health check's too.
    pub(super) fn all_node_ports(&self) -> Vec<i64> {
        let health = Some(self.health_port).filter(|port| *port != 0 && self.needs_health_port());
        self.node_ports().into_iter().chain(health).collect()
    }

    pub(super) fn set_address(&mut self, at: usize, address: &str) {
        if self.cluster_ips.len() <= at {
            self.cluster_ips.resize(at + 1, String::new());
        }
        if let Some(slot) = self.cluster_ips.get_mut(at) {
            address.clone_into(slot);
        }
        if at == 0 {
            address.clone_into(&mut self.cluster_ip);
        }
    }

    /// Takes over from the old object what the client left out although it stays.
    pub(super) fn keep_allocated(&mut self, old: &Self) {
        let addressed = |spec: &Self| !spec.external_name();
        if addressed(old) && addressed(self) {
            if self.cluster_ip.is_empty() {
                self.cluster_ip.clone_from(&old.cluster_ip);
            }
            if self.cluster_ips.is_empty() && self.cluster_ip == old.cluster_ip {
                self.cluster_ips.clone_from(&old.cluster_ips);
            }
        }
        if old.has_node_ports() && self.has_node_ports() {
            // Ports are matched by number and protocol; one that somebody else of the list asks for is not taken.
            let used: Vec<i64> = self.node_ports();
            for port in self.ports.iter_mut().filter(|port| port.node_port == 0) {
                let had = old.ports.iter().find(|o| o.port == port.port && o.protocol == port.protocol);
                port.node_port = had.map(|o| o.node_port).filter(|n| !used.contains(n)).unwrap_or(0);
            }
        }
        if old.needs_health_port() && self.needs_health_port() && self.health_port == 0 {
            self.health_port = old.health_port;
        }
    }

    /// Brings `clusterIP` and `clusterIPs` together: old clients know the first alone.
    pub(super) fn normalize_addresses(&mut self, old: Option<&Self>) {
        let Some(old) = old else {
            if !self.cluster_ip.is_empty() && self.cluster_ips.is_empty() {
                self.cluster_ips = vec![self.cluster_ip.clone()];
            }
            return;
        };
        let same_list = self.cluster_ips == old.cluster_ips;
        if !old.cluster_ip.is_empty() && self.cluster_ip.is_empty() && same_list {
            self.cluster_ips.clear();
        } else if self.cluster_ip != old.cluster_ip && same_list {
            self.cluster_ips = vec![self.cluster_ip.clone()];
            self.cluster_ips.retain(|ip| !ip.is_empty());
        }
    }
}
