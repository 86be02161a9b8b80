//! The plugin's operations. Every one is a function of the call and the configuration; printing is the caller's.

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::args::{Command, Invocation};
use crate::bandwidth;
use crate::config::{NetConf, VERSIONS};
use crate::error::{CniError, code};
use crate::link::{self, GATEWAY, PodLink};
use crate::names::{handle, host_interface};
use crate::netns::NetNs;
use crate::result::{Address, CniResult, Interface, Route};
use crate::wire::{Attach, Reply, Request, ask};

/// What a successful call prints; GC, STATUS, CHECK and DEL print nothing.
pub type Output = Option<Value>;

/// Runs one call: environment by `get`, configuration in `input`.
///
/// # Errors
/// A [`CniError`] to print, already in the version asked for.
pub fn run(get: impl Fn(&str) -> Option<String>, input: &[u8]) -> Result<Output, CniError> {
    let call = Invocation::from_env(get)?;
    if call.command == Command::Version {
        return Ok(Some(json!({ "cniVersion": "1.1.0", "supportedVersions": VERSIONS })));
    }
    let conf = NetConf::parse(input)?;
    let version = conf.cni_version.clone();
    let outcome = match conf.kind.as_str() {
        "loopback" => loopback(&call, &conf),
        "portmap" => portmap(&call, &conf),
        "bandwidth" => bandwidth::run(&call, &conf),
        _ => main_plugin(&call, &conf),
    };
    outcome.map_err(|error| CniError { cni_version: version, ..error })
}

fn main_plugin(call: &Invocation, conf: &NetConf) -> Result<Output, CniError> {
    match call.command {
        Command::Add => add(call, conf).map(Some),
        Command::Del => del(call, conf).map(|()| None),
        Command::Check => check(call, conf).map(|()| None),
        Command::Gc => gc(conf).map(|()| None),
        Command::Status => status(conf).map(|()| None),
        Command::Version => Ok(None),
    }
}

pub(crate) fn attachment(call: &Invocation, conf: &NetConf) -> Attach {
    Attach {
        handle: handle(&conf.name, &call.container_id, &call.ifname),
        network: conf.name.clone(),
        container_id: call.container_id.clone(),
        ifname: call.ifname.clone(),
        host_interface: host_interface(call),
        pod: call.pod().map(|(namespace, name)| (namespace.to_owned(), name.to_owned())),
        ports: conf.runtime_config.port_mappings.clone(),
    }
}

fn add(call: &Invocation, conf: &NetConf) -> Result<Value, CniError> {
    let netns = NetNs::require(&call.netns)?;
    let attach = attachment(call, conf);
    let host_name = attach.host_interface.clone();
    let handle = attach.handle.clone();
    let reply = ask(&conf.socket, &Request::Add(attach))?;
    let pod = PodLink {
        host_name: &host_name,
        ifname: &call.ifname,
        netns: &netns,
        mtu: conf.mtu,
        addresses: &reply.addresses,
    };
    match pod.build() {
        Ok(inside) => {
            if let Some(limits) = &conf.runtime_config.bandwidth {
                bandwidth::apply(&host_name, &call.ifname, &netns, *limits)?;
            }
            let result = CniResult {
                interfaces: vec![
                    Interface { name: host_name, ..Interface::default() },
                    Interface {
                        name: call.ifname.clone(),
                        mac: format_mac(&inside.mac),
                        mtu: Some(inside.mtu),
                        sandbox: call.netns.display().to_string(),
                    },
                ],
                ips: pod_addresses(&reply),
                routes: vec![Route { dst: IpNet::V4(ipnet::Ipv4Net::default()), gw: Some(GATEWAY.into()) }],
                dns: conf.dns.clone(),
                ..CniResult::default()
            };
            Ok(result.in_version(&conf.cni_version))
        }
        Err(error) => {
            // The address goes back at once: the runtime may never call DEL for a sandbox that failed.
            let undo = Request::Del { handle, host_interface: host_name };
            match ask(&conf.socket, &undo) {
                Ok(_) => Err(error),
                Err(second) => {
                    Err(CniError { details: format!("{} (and undo: {second})", error.details), ..error })
                }
            }
        }
    }
}

fn pod_addresses(reply: &Reply) -> Vec<Address> {
    reply
        .addresses
        .iter()
        .map(|ip| Address { address: IpNet::from(*ip), interface: Some(1), gateway: None, version: None })
        .collect()
}

pub(crate) fn format_mac(mac: &[u8]) -> String {
    mac.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

fn del(call: &Invocation, conf: &NetConf) -> Result<(), CniError> {
    let host_name = host_interface(call);
    // The link goes before the address, so that the address is never given away while it still answers.
    link::remove_inside(&call.netns, &call.ifname)?;
    let request = Request::Del {
        handle: handle(&conf.name, &call.container_id, &call.ifname),
        host_interface: host_name.clone(),
    };
    let reply = ask(&conf.socket, &request)?;
    if reply.superseded { Ok(()) } else { link::remove_host_side(&host_name) }
}

fn check(call: &Invocation, conf: &NetConf) -> Result<(), CniError> {
    let netns = NetNs::require(&call.netns)?;
    let request = Request::Check { handle: handle(&conf.name, &call.container_id, &call.ifname) };
    let reply = ask(&conf.socket, &request)?;
    if let Some(previous) = &conf.prev_result {
        let previous: CniResult = serde_json::from_value(previous.clone())
            .map_err(|e| CniError::new(code::DECODE, "cannot read prevResult", e.to_string()))?;
        let promised: Vec<_> = previous.ips.iter().map(|ip| ip.address.addr()).collect();
        if promised != reply.addresses {
            let details = format!("prevResult has {promised:?}, the agent has {:?}", reply.addresses);
            return Err(CniError::new(code::CHECK_FAILED, "the pod's addresses differ", details));
        }
    }
    PodLink {
        host_name: &host_interface(call),
        ifname: &call.ifname,
        netns: &netns,
        mtu: conf.mtu,
        addresses: &reply.addresses,
    }
    .check()
}

fn gc(conf: &NetConf) -> Result<(), CniError> {
    let valid = conf.valid_attachments.clone().ok_or_else(|| {
        CniError::new(code::INVALID_CONFIG, "GC without a list", "cni.dev/valid-attachments is missing")
    })?;
    ask(&conf.socket, &Request::Gc { network: conf.name.clone(), valid }).map(drop)
}

fn status(conf: &NetConf) -> Result<(), CniError> {
    ask(&conf.socket, &Request::Status).map(drop).map_err(|e| CniError { code: code::NOT_AVAILABLE, ..e })
}

/// The loopback plugin: `lo` up, prevResult passed on.
fn loopback(call: &Invocation, conf: &NetConf) -> Result<Output, CniError> {
    match call.command {
        Command::Add => {
            let lo = link::loopback_up(&NetNs::require(&call.netns)?)?;
            if let Some(previous) = &conf.prev_result {
                return Ok(Some(previous.clone()));
            }
            let interface = Interface {
                name: lo.name,
                mac: format_mac(&lo.mac),
                mtu: Some(lo.mtu),
                sandbox: call.netns.display().to_string(),
            };
            let ips = vec![Address {
                address: IpNet::from(std::net::IpAddr::from([127, 0, 0, 1])),
                interface: Some(0),
                gateway: None,
                version: None,
            }];
            let result = CniResult { interfaces: vec![interface], ips, ..CniResult::default() };
            Ok(Some(result.in_version(&conf.cni_version)))
        }
        Command::Check => NetNs::require(&call.netns).map(|_| None),
        _ => Ok(None),
    }
}

/// The portmap plugin, for chains that name one: the ports go to the agent, prevResult is passed on.
fn portmap(call: &Invocation, conf: &NetConf) -> Result<Output, CniError> {
    // Its own handle, so that it and the main plugin can each release what is theirs.
    let mut attach = attachment(call, conf);
    attach.handle.push_str(".portmap");
    match call.command {
        Command::Add => {
            let previous = conf.prev_result.clone().ok_or_else(|| {
                CniError::new(
                    code::INVALID_CONFIG,
                    "portmap must follow another plugin",
                    "prevResult is missing",
                )
            })?;
            let parsed: CniResult = serde_json::from_value(previous.clone())
                .map_err(|e| CniError::new(code::DECODE, "cannot read prevResult", e.to_string()))?;
            if !attach.ports.is_empty() {
                let addresses = parsed.ips.iter().map(|ip| ip.address.addr()).collect();
                ask(&conf.socket, &Request::PortMap { attach, addresses })?;
            }
            Ok(Some(previous))
        }
        Command::Del => {
            let request = Request::Del { handle: attach.handle, host_interface: String::new() };
            ask(&conf.socket, &request).map(|_| None)
        }
        Command::Check if attach.ports.is_empty() => Ok(None),
        Command::Check => ask(&conf.socket, &Request::Check { handle: attach.handle }).map(|_| None),
        Command::Status => status(conf).map(|()| None),
        Command::Gc | Command::Version => Ok(None),
    }
}
