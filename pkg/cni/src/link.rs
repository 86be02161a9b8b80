//! The pod's link: what ADD builds, CHECK compares and DEL removes.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use crate::error::{CniError, code};
use crate::netlink::{Link, RouteSpec, Rtnl, VethPair};
use crate::netns::NetNs;
use crate::sysctl::{self, Need};

/// The pod's next hop: no machine has it, the host side answers for it by proxy ARP.
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// The host side's hardware address, the same for every pod, so that a pod's neighbour entry never goes stale.
const HOST_MAC: [u8; 6] = [0xee; 6];
/// Used when the machine has no default route.
const DEFAULT_MTU: u32 = 1500;

/// One attachment's link.
#[derive(Debug)]
pub(crate) struct PodLink<'a> {
    pub(crate) host_name: &'a str,
    pub(crate) ifname: &'a str,
    pub(crate) netns: &'a NetNs,
    /// 0 takes the uplink's.
    pub(crate) mtu: u32,
    pub(crate) addresses: &'a [IpAddr],
}

/// Settings of the host side that make it a router for one pod.
const HOST_SETTINGS: [(&str, &str, Need); 5] = [
    ("proxy_arp", "1", Need::Required),
    ("forwarding", "1", Need::Required),
    // Lets 127.0.0.1:hostPort be rewritten to the pod; the agent's table drops what abuses it.
    ("route_localnet", "1", Need::Required),
    ("rp_filter", "0", Need::Optional),
    ("accept_redirects", "0", Need::Optional),
];

impl PodLink<'_> {
    /// Builds the pair, addresses and routes; returns the container's side.
    pub(crate) fn build(&self) -> Result<Link, CniError> {
        let mut host = Rtnl::open()?;
        self.refuse_taken_name()?;
        // A pair left by a dead sandbox of the same pod: the newest sandbox wins.
        host.delete_link(self.host_name)?;
        let mtu = match self.mtu {
            0 => host.uplink_mtu()?.unwrap_or(DEFAULT_MTU),
            fixed => fixed,
        };
        host.add_veth(&VethPair {
            host_name: self.host_name,
            host_mac: HOST_MAC,
            peer_name: self.ifname,
            peer_netns: self.netns.raw_fd(),
            mtu,
        })?;
        self.set_host_settings()?;
        let inside = self.netns.enter(|| self.configure_container())?;
        self.route_on_host(&mut host)?;
        Ok(inside)
    }

    fn refuse_taken_name(&self) -> Result<(), CniError> {
        let taken = self.netns.enter(|| Ok(Rtnl::open()?.link(self.ifname)?.is_some()))?;
        if taken {
            let details = format!("the container already has an interface {}", self.ifname);
            return Err(CniError::new(code::INVALID_ENVIRONMENT, "CNI_IFNAME is taken", details));
        }
        Ok(())
    }

    fn set_host_settings(&self) -> Result<(), CniError> {
        sysctl::set("ipv4/ip_forward", "1", Need::Required)?;
        let name = self.host_name;
        for (setting, value, need) in HOST_SETTINGS {
            sysctl::set(&format!("ipv4/conf/{name}/{setting}"), value, need)?;
        }
        sysctl::set(&format!("ipv4/neigh/{name}/proxy_delay"), "0", Need::Optional)?;
        sysctl::set(&format!("ipv6/conf/{name}/accept_ra"), "0", Need::Optional)
    }

    fn configure_container(&self) -> Result<Link, CniError> {
        let mut inside = Rtnl::open()?;
        sysctl::set("ipv4/ip_forward", "0", Need::Optional)?;
        let link = require_link(&mut inside, self.ifname)?;
        if let Some(lo) = inside.link("lo")?
            && !lo.up
        {
            inside.set_up(&lo)?;
        }
        inside.set_up(&link)?;
        for address in self.addresses {
            inside.add_address(&link, *address)?;
        }
        let gateway = IpAddr::V4(GATEWAY);
        let to_gateway =
            RouteSpec { destination: Some(gateway), gateway: None, device: link.index, link_scope: true };
        let default =
            RouteSpec { destination: None, gateway: Some(gateway), device: link.index, link_scope: false };
        for (what, route) in [("169.254.1.1", to_gateway), ("default", default)] {
            inside
                .add_route(&route)
                .map_err(|e| CniError::io(format!("add the {what} route in the pod"), &e))?;
        }
        // Proxy ARP answers only for what the node itself can route; a node without a default route could not.
        inside.add_neighbour(&link, GATEWAY, HOST_MAC)?;
        Ok(link)
    }

    fn route_on_host(&self, host: &mut Rtnl) -> Result<(), CniError> {
        let device = require_link(host, self.host_name)?.index;
        for address in self.addresses {
            let route = RouteSpec { destination: Some(*address), gateway: None, device, link_scope: true };
            match host.add_route(&route) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                    let details = format!("{address} is already routed to another interface");
                    return Err(CniError::new(code::IO, "the pod's address is in use", details));
                }
                other => {
                    other.map_err(|e| CniError::io(format!("route {address} to {}", self.host_name), &e))?
                }
            }
        }
        Ok(())
    }

    /// Whether link, addresses, routes and settings are as [`Self::build`] left them.
    pub(crate) fn check(&self) -> Result<(), CniError> {
        let mut host = Rtnl::open()?;
        let outside = require_link(&mut host, self.host_name).map_err(as_check)?;
        ensure(outside.up, || format!("{} is down", self.host_name))?;
        ensure(outside.mac == HOST_MAC, || format!("{} has another hardware address", self.host_name))?;
        let routes = host.routes()?;
        for address in self.addresses {
            let there = routes.iter().any(|r| r.destination == Some(*address) && r.device == outside.index);
            ensure(there, || format!("no route to {address} by {}", self.host_name))?;
        }
        let proxy = format!("ipv4/conf/{}/proxy_arp", self.host_name);
        ensure(sysctl::is(&proxy, "1"), || format!("net/{proxy} is not 1"))?;
        ensure(sysctl::is("ipv4/ip_forward", "1"), || "IPv4 forwarding is off".to_owned())?;
        self.netns.enter(|| self.check_container())
    }

    fn check_container(&self) -> Result<(), CniError> {
        let mut inside = Rtnl::open()?;
        let link = require_link(&mut inside, self.ifname).map_err(as_check)?;
        ensure(link.up, || format!("{} is down in the pod", self.ifname))?;
        let present = inside.addresses(&link)?;
        for address in self.addresses {
            ensure(present.contains(address), || format!("{} has lost {address}", self.ifname))?;
        }
        let gateway = Some(IpAddr::V4(GATEWAY));
        let default = inside.routes()?.iter().any(|r| r.destination.is_none() && r.gateway == gateway);
        ensure(default, || "the pod has no default route by 169.254.1.1".to_owned())
    }
}

fn require_link(rtnl: &mut Rtnl, name: &str) -> Result<Link, CniError> {
    rtnl.link(name)?
        .ok_or_else(|| CniError::new(code::IO, "interface is missing", format!("no interface {name}")))
}

fn as_check(error: CniError) -> CniError {
    CniError { code: code::CHECK_FAILED, ..error }
}

fn ensure(holds: bool, details: impl FnOnce() -> String) -> Result<(), CniError> {
    if holds {
        Ok(())
    } else {
        Err(CniError::new(code::CHECK_FAILED, "the pod's network has changed", details()))
    }
}

/// Removes the interface `ifname` from the namespace at `netns`, and with it the host side. Nothing there is fine.
pub(crate) fn remove_inside(netns: &Path, ifname: &str) -> Result<(), CniError> {
    if netns.as_os_str().is_empty() {
        return Ok(());
    }
    match NetNs::open(netns)? {
        // The file can outlive the namespace (an unmounted bind mount): then there is nothing to enter.
        Some(ns) => match ns.enter(|| Rtnl::open()?.delete_link(ifname).map(drop)) {
            Err(error) if error.details.contains("Invalid argument") => Ok(()),
            other => other,
        },
        None => Ok(()),
    }
}

/// Removes the host side by name.
pub(crate) fn remove_host_side(name: &str) -> Result<(), CniError> {
    Rtnl::open()?.delete_link(name).map(drop)
}

/// Brings `lo` up in the namespace (the loopback plugin).
pub(crate) fn loopback_up(ns: &NetNs) -> Result<Link, CniError> {
    ns.enter(|| {
        let mut inside = Rtnl::open()?;
        let lo = require_link(&mut inside, "lo")?;
        inside.set_up(&lo)?;
        Ok(lo)
    })
}
