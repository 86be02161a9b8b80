//! The variables that tell a container of its namespace's Services (`k8s.io/kubernetes/pkg/kubelet/envvars`).

use copepod_client::Meta;
use serde::Deserialize;

/// A Service, trimmed to what its variables need.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceView {
    metadata: Meta,
    spec: Spec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "clusterIP")]
    cluster_ip: String,
    ports: Vec<Port>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Port {
    name: String,
    port: u16,
    protocol: String,
}

impl ServiceView {
    pub(super) fn name(&self) -> &str {
        &self.metadata.name
    }
}

/// The variables of every Service that has an address of its own.
pub(super) fn variables<'a>(services: impl Iterator<Item = &'a ServiceView>) -> Vec<(String, String)> {
    let addressed = services.filter(|s| !matches!(s.spec.cluster_ip.as_str(), "" | "None"));
    addressed.flat_map(of_service).collect()
}

fn of_service(service: &ServiceView) -> Vec<(String, String)> {
    let prefix = service.metadata.name.to_uppercase().replace('-', "_");
    let ip = &service.spec.cluster_ip;
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.clone() };
    let mut env = vec![(format!("{prefix}_SERVICE_HOST"), ip.clone())];
    let Some(first) = service.spec.ports.first() else { return env };
    env.push((format!("{prefix}_SERVICE_PORT"), first.port.to_string()));
    for port in service.spec.ports.iter().filter(|p| !p.name.is_empty()) {
        let name = port.name.to_uppercase().replace('-', "_");
        env.push((format!("{prefix}_SERVICE_PORT_{name}"), port.port.to_string()));
    }
    for (index, port) in service.spec.ports.iter().enumerate() {
        let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
        let url = format!("{}://{host}:{}", protocol.to_lowercase(), port.port);
        if index == 0 {
            env.push((format!("{prefix}_PORT"), url.clone()));
        }
        let this = format!("{prefix}_PORT_{}_{}", port.port, protocol.to_uppercase());
        env.push((this.clone(), url));
        env.push((format!("{this}_PROTO"), protocol.to_lowercase()));
        env.push((format!("{this}_PORT"), port.port.to_string()));
        env.push((format!("{this}_ADDR"), ip.clone()));
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn upstreams_variables() {
        let service: ServiceView = serde_json::from_value(json!({
            "metadata": {"name": "my-web"},
            "spec": {"clusterIP": "10.96.0.5", "ports": [{"name": "http-x", "port": 80, "protocol": "TCP"}]}
        }))
        .unwrap();
        let headless = ServiceView::default();
        let env = variables([&service, &headless].into_iter());
        let want = [
            ("MY_WEB_SERVICE_HOST", "10.96.0.5"),
            ("MY_WEB_SERVICE_PORT", "80"),
            ("MY_WEB_SERVICE_PORT_HTTP_X", "80"),
            ("MY_WEB_PORT", "tcp://10.96.0.5:80"),
            ("MY_WEB_PORT_80_TCP", "tcp://10.96.0.5:80"),
            ("MY_WEB_PORT_80_TCP_PROTO", "tcp"),
            ("MY_WEB_PORT_80_TCP_PORT", "80"),
            ("MY_WEB_PORT_80_TCP_ADDR", "10.96.0.5"),
        ];
        assert_eq!(env, want.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }
}
