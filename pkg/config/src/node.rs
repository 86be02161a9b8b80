//! The configuration file of the appliance, `/etc/copepod/config.yaml`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// How Services reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum ProxyMode {
    /// nftables, table `ip kube-proxy`.
    #[default]
    Nftables,
    /// The chains of kube-proxy's iptables mode.
    Iptables,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not what it should be; the text names line and key.
    #[error("{path}: {why}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Values that cannot work, all of them.
    #[error("the configuration cannot work: {}", .0.join("; "))]
    Invalid(Vec<String>),
}

/// What the owner of a node may set; every key has a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeConfig {
    /// The node's name; the host's name in lower case when empty.
    pub node_name: String,
    /// The node's addresses, one per family; found from the default route (or the first interface) when empty.
    pub node_ips: Vec<IpAddr>,
    /// Further names and addresses of the API server's certificate.
    pub tls_sans: Vec<String>,
    /// The port of the API server.
    pub api_port: u16,
    /// Pod ranges, one per family.
    pub cluster_cidrs: Vec<IpNet>,
    /// Service ranges, one per family.
    pub service_cidrs: Vec<IpNet>,
    /// The address of the DNS Service; the tenth of the service range when unset.
    pub cluster_dns: Option<IpAddr>,
    /// The suffix of cluster names.
    pub cluster_domain: String,
    /// How Services reach the kernel.
    pub proxy_mode: ProxyMode,
    /// Ports a NodePort may take, first and last.
    pub service_node_port_range: (u16, u16),
    /// Labels of the Node object.
    pub node_labels: BTreeMap<String, String>,
    /// The most pods at once.
    pub max_pods: u32,
    /// What must stay free, by the kubelet's signals; less counts as pressure and takes no new pods.
    pub eviction_hard: BTreeMap<String, String>,
    /// Levels of the log, in the form of `RUST_LOG`.
    pub log: String,
}

impl Default for NodeConfig {
    fn default() -> Self {
        let net = |text: &str| text.parse().expect("a literal network");
        Self {
            node_name: String::new(),
            node_ips: Vec::new(),
            tls_sans: Vec::new(),
            api_port: 6443,
            cluster_cidrs: vec![net("10.244.0.0/16")],
            service_cidrs: vec![net("10.96.0.0/12")],
            cluster_dns: None,
            cluster_domain: "cluster.local".to_owned(),
            proxy_mode: ProxyMode::default(),
            service_node_port_range: (30000, 32767),
            node_labels: BTreeMap::new(),
            max_pods: 110,
            eviction_hard: eviction_hard(),
            log: "info".to_owned(),
        }
    }
}

/// Upstream's thresholds, but for the disk: a tenth of a large one is a lot, and small boards live with little free.
fn eviction_hard() -> BTreeMap<String, String> {
    let least = [
        ("memory.available", "100Mi"),
        ("nodefs.available", "5%"),
        ("nodefs.inodesFree", "5%"),
        ("imagefs.available", "5%"),
        ("imagefs.inodesFree", "5%"),
    ];
    least.map(|(signal, amount)| (signal.to_owned(), amount.to_owned())).into()
}

impl NodeConfig {
    /// Reads a configuration file; a missing one gives the defaults.
    ///
    /// # Errors
    /// Names the file and what is wrong in it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(ConfigError::Read { path: path.to_owned(), source }),
        };
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let config: Self = serde_saphyr::from_str(&text)
            .map_err(|e| ConfigError::Parse { path: path.to_owned(), why: e.to_string() })?;
        config.check()?;
        Ok(config)
    }

    /// Checks what the types cannot; reports all problems at once.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every problem.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        if !self.node_name.is_empty() {
            let bad = |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.');
            if self.node_name.contains(bad) || self.node_name.len() > 253 {
                problems.push(format!("nodeName {:?} is not a lower-case DNS name", self.node_name));
            }
        }
        for (key, list) in [("clusterCidrs", &self.cluster_cidrs), ("serviceCidrs", &self.service_cidrs)] {
            let families = list.iter().filter(|n| n.addr().is_ipv4()).count();
            if list.is_empty() || list.len() > 2 || families > 1 || list.len() - families > 1 {
                problems.push(format!("{key} takes one network per address family"));
            }
        }
        for (pods, services) in
            self.cluster_cidrs.iter().flat_map(|p| self.service_cidrs.iter().map(move |s| (p, s)))
        {
            if pods.contains(&services.addr()) || services.contains(&pods.addr()) {
                problems.push(format!("clusterCidrs {pods} and serviceCidrs {services} overlap"));
            }
        }
        if let Some(dns) = self.cluster_dns.filter(|d| !self.service_cidrs.iter().any(|n| n.contains(d))) {
            problems.push(format!("clusterDns {dns} lies outside serviceCidrs"));
        }
        let (first, last) = self.service_node_port_range;
        if first == 0 || first > last {
            problems.push(format!("serviceNodePortRange {first}-{last} is empty"));
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::Invalid(problems)) }
    }

    /// The address of the Service `kubernetes`: the first of the first service range.
    #[must_use]
    pub fn kubernetes_ip(&self) -> Option<IpAddr> {
        nth(self.service_cidrs.first()?, 1)
    }

    /// The address of the DNS Service.
    #[must_use]
    pub fn dns_ip(&self) -> Option<IpAddr> {
        self.cluster_dns.or_else(|| nth(self.service_cidrs.first()?, 10))
    }
}

fn nth(network: &IpNet, n: u32) -> Option<IpAddr> {
    let address = match network.network() {
        IpAddr::V4(base) => IpAddr::from((u32::from(base).checked_add(n)?).to_be_bytes()),
        IpAddr::V6(base) => IpAddr::from((u128::from(base).checked_add(u128::from(n))?).to_be_bytes()),
    };
    network.contains(&address).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_designs() {
        let config = NodeConfig::default();
        assert!(config.check().is_ok());
        assert_eq!(config.kubernetes_ip(), Some("10.96.0.1".parse().unwrap()));
        assert_eq!(config.dns_ip(), Some("10.96.0.10".parse().unwrap()));
    }

    #[test]
    fn every_problem_is_reported_at_once_and_unknown_keys_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        std::fs::write(&path, "nodeName: Bad_Name\nserviceCidrs: [10.244.1.0/24]\n").unwrap();
        let text = NodeConfig::load(&path).unwrap_err().to_string();
        assert!(text.contains("nodeName \"Bad_Name\"") && text.contains("overlap"), "{text}");
        std::fs::write(&path, "nodename: x\n").unwrap();
        let text = NodeConfig::load(&path).unwrap_err().to_string();
        assert!(text.contains("config.yaml") && text.contains("nodename"), "{text}");
        assert_eq!(NodeConfig::load(&dir.path().join("none")).unwrap(), NodeConfig::default());
    }
}
