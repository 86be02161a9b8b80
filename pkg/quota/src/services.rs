//! Services, and how many node ports and load balancers they take.

use copepod_api::Quantity;
use serde_json::Value;

use crate::Amounts;

/// Beside `count/services`.
pub(crate) const NAMES: &[&str] = &["services", "services.nodeports", "services.loadbalancers"];

/// What one Service uses. Node ports are not given out yet when it is charged, so the intent counts.
pub(crate) fn usage(service: &Value) -> Amounts {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let explicit = || ports.iter().filter(|p| p["nodePort"].as_u64().is_some_and(|port| port != 0)).count();
    let (node_ports, balancers) = match spec["type"].as_str() {
        Some("NodePort") => (ports.len(), 0),
        Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => (explicit(), 1),
        Some("LoadBalancer") => (ports.len(), 1),
        _ => (0, 0),
    };
    let mut used = Amounts::default();
    used.set("count/services", Quantity::from_units(1));
    used.set("services", Quantity::from_units(1));
    used.set("services.nodeports", Quantity::from_units(i64::try_from(node_ports).unwrap_or(i64::MAX)));
    used.set("services.loadbalancers", Quantity::from_units(balancers));
    used
}
