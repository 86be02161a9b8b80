//! `KubeProxyConfiguration`: the fields of upstream's configuration file that this proxy honours.
//!
//! An absent field means upstream's default, but for the mode: an empty one is nftables here.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use copepod_config::{ComponentConfig, GoDuration};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Config, NodePortAddresses};

/// The file, with upstream's field names.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "upstream's reference explains the fields, by these names")]
pub struct KubeProxyConfiguration {
    pub client_connection: ClientConnection,
    pub hostname_override: Option<String>,
    pub bind_address: Option<IpAddr>,
    pub healthz_bind_address: Option<String>,
    pub metrics_bind_address: Option<String>,
    pub mode: Option<String>,
    pub nftables: ModeConfiguration,
    pub iptables: ModeConfiguration,
    pub detect_local_mode: Option<String>,
    #[serde(rename = "clusterCIDR")]
    pub cluster_cidr: Option<String>,
    pub node_port_addresses: Option<Vec<String>>,
}

/// How to reach the API server.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "upstream's reference explains the fields, by these names")]
pub struct ClientConnection {
    pub kubeconfig: Option<PathBuf>,
}

/// The settings of one mode. How often all rules are written anew is accepted and needs no answer: rules follow events
/// and are repaired when somebody else changes them.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "upstream's reference explains the fields, by these names")]
pub struct ModeConfiguration {
    pub masquerade_bit: Option<u8>,
    pub masquerade_all: Option<bool>,
    pub sync_period: Option<GoDuration>,
    pub min_sync_period: Option<GoDuration>,
}

impl ComponentConfig for KubeProxyConfiguration {
    const API_VERSION: &'static str = "kubeproxy.config.k8s.io/v1alpha1";
    const KIND: &'static str = "KubeProxyConfiguration";
}

impl KubeProxyConfiguration {
    /// The proxy's configuration of this file. The node's addresses and the range of Services are not in it; left
    /// empty, they are learned from the API.
    ///
    /// # Errors
    /// Every value that means nothing.
    pub fn config(&self) -> Result<Config, Vec<String>> {
        let mut problems = Vec::new();
        let mut config = Config {
            kubeconfig: self.client_connection.kubeconfig.clone().unwrap_or_default(),
            node_name: self.hostname_override.clone().unwrap_or_default(),
            node_ips: self.bind_address.filter(|ip| !ip.is_unspecified()).into_iter().collect(),
            cluster_cidrs: self.cluster_cidrs(&mut problems),
            service_cidrs: Vec::new(),
            ..Config::default()
        };
        match self.mode.as_deref().unwrap_or_default().parse() {
            Ok(mode) => config.mode = mode,
            Err(error) => problems.push(error.to_string()),
        }
        let of_mode = match config.mode {
            copepod_dataplane::Mode::Nftables => &self.nftables,
            copepod_dataplane::Mode::Iptables => &self.iptables,
        };
        config.masquerade_all = of_mode.masquerade_all.unwrap_or_default();
        config.masquerade_bit = of_mode.masquerade_bit.unwrap_or(config.masquerade_bit);
        if config.masquerade_bit > 31 {
            problems.push(format!("masqueradeBit {} is not below 32", config.masquerade_bit));
        }
        match self.node_port_addresses.as_deref().unwrap_or_default() {
            [] => {}
            [one] if one == "primary" => config.node_port_addresses = NodePortAddresses::Primary,
            [one] if one == "0.0.0.0/0" => config.node_port_addresses = NodePortAddresses::All,
            other => problems.push(format!("nodePortAddresses {other:?} is not [primary] or [0.0.0.0/0]")),
        }
        for (place, field, text) in [
            (&mut config.healthz, "healthzBindAddress", &self.healthz_bind_address),
            (&mut config.metrics, "metricsBindAddress", &self.metrics_bind_address),
        ] {
            match text.as_deref().filter(|text| !text.is_empty()).map(|text| address(text, place.port())) {
                None => {}
                Some(Some(address)) => *place = address,
                Some(None) => problems.push(format!("{field} {text:?} is no address")),
            }
        }
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    fn cluster_cidrs(&self, problems: &mut Vec<String>) -> Vec<IpNet> {
        if !matches!(self.detect_local_mode.as_deref().unwrap_or_default(), "" | "ClusterCIDR") {
            problems.push(format!("detectLocalMode {:?} is not ClusterCIDR", self.detect_local_mode));
        }
        let text = self.cluster_cidr.as_deref().unwrap_or_default();
        let nets = text.split(',').map(str::trim).filter(|net| !net.is_empty());
        nets.filter_map(|net| match net.parse() {
            Ok(net) => Some(net),
            Err(_) => {
                problems.push(format!("clusterCIDR {net:?} is no network"));
                None
            }
        })
        .collect()
    }
}

/// An address with or without its port.
fn address(text: &str, port: u16) -> Option<SocketAddr> {
    let plain = |ip: &str| ip.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port));
    let any = |port: &str| port.parse().ok().map(|port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    text.parse().ok().or_else(|| plain(text)).or_else(|| text.strip_prefix(':').and_then(any))
}

#[cfg(test)]
mod tests {
    use copepod_config::parse_component;

    use super::*;

    fn read(fields: &str) -> Result<Config, Vec<String>> {
        let text =
            format!("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n{fields}\n");
        parse_component::<KubeProxyConfiguration>(&text).map_err(|why| vec![why])?.config()
    }

    #[test]
    fn values_take_effect() {
        let config = read(
            "clientConnection: {kubeconfig: /k, qps: 0, burst: 0}\nclusterCIDR: 10.1.0.0/16\nmode: iptables\n\
             iptables: {masqueradeAll: true, syncPeriod: 30s}\nhealthzBindAddress: 127.0.0.1\nmetricsBindAddress: ':1234'\n\
             hostnameOverride: n1\nconntrack: {maxPerCore: 0, min: 0}\noomScoreAdj: 0",
        )
        .unwrap();
        assert_eq!((config.kubeconfig, config.node_name.as_str()), (PathBuf::from("/k"), "n1"));
        assert_eq!(config.mode, copepod_dataplane::Mode::Iptables);
        assert!(config.masquerade_all && config.node_ips.is_empty() && config.service_cidrs.is_empty());
        assert_eq!(config.healthz.to_string(), "127.0.0.1:10256");
        assert_eq!(config.metrics.to_string(), "0.0.0.0:1234");
        assert_eq!(config.cluster_cidrs, ["10.1.0.0/16".parse::<IpNet>().unwrap()]);
    }

    #[test]
    fn what_means_nothing_here_is_refused() {
        let wrong =
            read("mode: ipvs\nclusterCIDR: x\ndetectLocalMode: NodeCIDR\nnodePortAddresses: [10.0.0.0/8]");
        assert_eq!(wrong.unwrap_err().len(), 4);
        let unknown = read("conntrack: {maxPerCore: 5}\nfeatureGates: {X: true}").unwrap_err();
        assert_eq!(unknown, ["not supported here: conntrack.maxPerCore, featureGates.X"]);
    }
}
