//! The network configuration on standard input.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::is_valid_id;
use crate::error::{CniError, code};

/// Versions this plugin speaks, oldest first.
pub(crate) const VERSIONS: [&str; 5] = ["0.3.1", "0.4.0", "1.0.0", "1.1.0", "0.3.0"];
/// Where the agent listens unless the configuration says otherwise.
const DEFAULT_SOCKET: &str = "/run/copepod/cni.sock";

/// One plugin's configuration: ours, or the seed's form with `type: calico` and `ipam.type: calico-ipam`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetConf {
    /// The version of the specification to answer in.
    #[serde(default)]
    pub cni_version: String,
    /// The network's name, `k8s-pod-network` as a rule.
    #[serde(default)]
    pub name: String,
    /// The plugin's name, which also picks the mode: `loopback`, `portmap`, `bandwidth`, anything else is the main
    /// plugin.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// A fixed MTU; 0 takes the uplink's.
    #[serde(default)]
    pub mtu: u32,
    /// The agent's socket.
    #[serde(default = "default_socket")]
    pub socket: PathBuf,
    /// What the runtime adds for capabilities.
    #[serde(default)]
    pub runtime_config: RuntimeConfig,
    /// The result of the plugin before us in the chain, or of ADD for CHECK and DEL.
    #[serde(default)]
    pub prev_result: Option<Value>,
    /// GC: the attachments that exist.
    #[serde(default, rename = "cni.dev/valid-attachments")]
    pub valid_attachments: Option<Vec<Attachment>>,
    /// DNS settings to pass on.
    #[serde(default)]
    pub dns: Option<Value>,
}

fn default_socket() -> PathBuf {
    Path::new(DEFAULT_SOCKET).to_owned()
}

/// Values the runtime fills in for the capabilities a plugin declares.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeConfig {
    /// Capability `portMappings`: the pod's hostPorts.
    pub port_mappings: Vec<PortMapping>,
    /// Capability `bandwidth`: the pod's traffic limits.
    pub bandwidth: Option<Bandwidth>,
}

/// One hostPort. Go reads JSON names in any case, and containerd writes these in upper camel case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortMapping {
    /// The port on the node.
    #[serde(alias = "HostPort")]
    pub host_port: u16,
    /// The port in the pod.
    #[serde(alias = "ContainerPort")]
    pub container_port: u16,
    /// `tcp` (default), `udp` or `sctp`, in any case.
    #[serde(default, alias = "Protocol")]
    pub protocol: String,
    /// Only this address of the node; none means all.
    #[serde(
        default,
        rename = "hostIP",
        alias = "HostIP",
        deserialize_with = "address_or_empty",
        skip_serializing_if = "Option::is_none"
    )]
    pub host_ip: Option<IpAddr>,
}

/// Traffic limits in bits; 0 means none. Rates are per second. Names in both cases, as of [`PortMapping`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bandwidth {
    /// Towards the pod.
    #[serde(alias = "IngressRate")]
    pub ingress_rate: u64,
    /// Burst towards the pod.
    #[serde(alias = "IngressBurst")]
    pub ingress_burst: u64,
    /// From the pod.
    #[serde(alias = "EgressRate")]
    pub egress_rate: u64,
    /// Burst from the pod.
    #[serde(alias = "EgressBurst")]
    pub egress_burst: u64,
}

/// An attachment the runtime still knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The sandbox's ID.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// The interface inside it.
    pub ifname: String,
}

fn address_or_empty<'de, D: serde::Deserializer<'de>>(de: D) -> Result<Option<IpAddr>, D::Error> {
    let text = Option::<String>::deserialize(de)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let address: IpAddr = text.parse().map_err(serde::de::Error::custom)?;
    Ok((!address.is_unspecified()).then_some(address))
}

impl NetConf {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// Number 6 for bad JSON, 1 for a version we do not speak, 7 for a bad network name.
    pub fn parse(input: &[u8]) -> Result<Self, CniError> {
        let conf: Self = serde_json::from_slice(input).map_err(|e| {
            CniError::new(code::DECODE, "cannot read the network configuration", e.to_string())
        })?;
        if !VERSIONS.contains(&conf.cni_version.as_str()) {
            let details = format!("cniVersion {:?} is not among {}", conf.cni_version, VERSIONS.join(", "));
            return Err(CniError::new(code::INCOMPATIBLE_VERSION, "incompatible CNI version", details));
        }
        if !is_valid_id(&conf.name) {
            return Err(CniError::new(
                code::INVALID_CONFIG,
                "invalid network name",
                format!("name: {:?}", conf.name),
            ));
        }
        Ok(conf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_form_is_accepted() {
        let conf = NetConf::parse(
            br#"{"cniVersion":"1.0.0","name":"k8s-pod-network","type":"calico","ipam":{"type":"calico-ipam"},
                "containerID":"abc","ifName":"eth0","netns":"/proc/12345/ns/net"}"#,
        )
        .unwrap();
        assert_eq!(conf.socket, Path::new(DEFAULT_SOCKET));
        assert_eq!(conf.mtu, 0);
    }

    #[test]
    fn port_mappings_take_a_host_address_or_none() {
        let conf = NetConf::parse(
            br#"{"cniVersion":"1.1.0","name":"n","type":"copepod-cni","runtimeConfig":{"portMappings":[
                {"hostPort":80,"containerPort":8080,"protocol":"tcp","hostIP":""},
                {"hostPort":53,"containerPort":53,"protocol":"UDP","hostIP":"127.0.0.1"}]}}"#,
        )
        .unwrap();
        assert_eq!(conf.runtime_config.port_mappings[0].host_ip, None);
        assert_eq!(conf.runtime_config.port_mappings[1].host_ip, Some("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn names_are_read_as_containerd_writes_them() {
        let conf = NetConf::parse(
            br#"{"cniVersion":"1.1.0","name":"n","type":"copepod-cni","runtimeConfig":{
                "portMappings":[{"HostPort":80,"ContainerPort":8080,"Protocol":"tcp","HostIP":"127.0.0.1"}],
                "bandwidth":{"IngressRate":1,"IngressBurst":2,"EgressRate":3,"EgressBurst":4}}}"#,
        )
        .unwrap();
        let port = &conf.runtime_config.port_mappings[0];
        assert_eq!((port.host_port, port.container_port, port.protocol.as_str()), (80, 8080, "tcp"));
        assert_eq!(port.host_ip, Some("127.0.0.1".parse().unwrap()));
        let limits = conf.runtime_config.bandwidth.unwrap();
        assert_eq!((limits.ingress_rate, limits.egress_burst), (1, 4));
    }

    #[test]
    fn bad_input_has_its_number() {
        assert_eq!(NetConf::parse(b"{").unwrap_err().code, 6);
        assert_eq!(NetConf::parse(br#"{"cniVersion":"9.9.9","name":"n"}"#).unwrap_err().code, 1);
        assert_eq!(NetConf::parse(br#"{"cniVersion":"1.1.0","name":"-n"}"#).unwrap_err().code, 7);
    }
}
