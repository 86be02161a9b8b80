//! A successful result, in the form of the version asked for.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A CNI result (specification 1.1, "Success").
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CniResult {
    /// The version it is written in.
    pub cni_version: String,
    /// The host side first, then the container's side.
    pub interfaces: Vec<Interface>,
    /// The pod's addresses.
    pub ips: Vec<Address>,
    /// Routes inside the pod.
    pub routes: Vec<Route>,
    /// Resolver settings, passed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<Value>,
}

/// One end of the pair.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its hardware address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac: String,
    /// Its MTU (1.1 and later).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The namespace's path; empty on the host.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sandbox: String,
}

/// One address of the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Always a single address (/32 or /128).
    pub address: IpNet,
    /// Index into [`CniResult::interfaces`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<usize>,
    /// Absent: the pod's gateway is a link-local address that nobody owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// "4" or "6"; only before 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// One route inside the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Destination.
    pub dst: IpNet,
    /// Next hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gw: Option<IpAddr>,
}

impl CniResult {
    /// The result as a document of version `version`.
    #[must_use]
    pub fn in_version(mut self, version: &str) -> Value {
        version.clone_into(&mut self.cni_version);
        if version.starts_with("0.") {
            for ip in &mut self.ips {
                ip.version = Some(if ip.address.addr().is_ipv4() { "4" } else { "6" }.to_owned());
            }
        }
        if version != "1.1.0" {
            for interface in &mut self.interfaces {
                interface.mtu = None;
            }
        }
        serde_json::to_value(self).unwrap_or_default()
    }
}
