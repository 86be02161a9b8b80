//! A blocking rtnetlink socket: one request, its answers, no runtime.

use std::net::IpAddr;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::error::CniError;

/// What we read of a link.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) mac: Vec<u8>,
    pub(crate) mtu: u32,
    pub(crate) up: bool,
}

/// A veth pair to make: the host side here, the other side in another namespace.
#[derive(Debug)]
pub(crate) struct VethPair<'a> {
    pub(crate) host_name: &'a str,
    pub(crate) host_mac: [u8; 6],
    pub(crate) peer_name: &'a str,
    pub(crate) peer_netns: std::os::fd::RawFd,
    pub(crate) mtu: u32,
}

/// A route, as far as we make or read any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteSpec {
    pub(crate) destination: Option<IpAddr>,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) device: u32,
    pub(crate) link_scope: bool,
}

/// An rtnetlink socket in the namespace it was opened in.
#[derive(Debug)]
pub(crate) struct Rtnl {
    socket: Socket,
    sequence: u32,
}

type Message = NetlinkMessage<RouteNetlinkMessage>;

impl Rtnl {
    pub(crate) fn open() -> Result<Self, CniError> {
        let open = || -> std::io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        open()
            .map(|socket| Self { socket, sequence: 0 })
            .map_err(|e| CniError::io("open a netlink socket", &e))
    }

    /// Sends `payload` and collects what the kernel answers, up to its acknowledgement.
    fn call(
        &mut self,
        payload: RouteNetlinkMessage,
        flags: u16,
    ) -> std::io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = Message::new(header, NetlinkPayload::from(payload));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        self.answers()
    }

    fn answers(&self) -> std::io::Result<Vec<RouteNetlinkMessage>> {
        let mut out = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = datagram.as_slice();
            while rest.len() >= 16 {
                let message = Message::deserialize(rest).map_err(std::io::Error::other)?;
                let length = message.header.length as usize;
                if message.header.sequence_number == self.sequence {
                    match message.payload {
                        NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                        NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(out),
                        NetlinkPayload::InnerMessage(inner) => out.push(inner),
                        _ => {}
                    }
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }

    /// The link named `name`; `None` when there is none.
    pub(crate) fn link(&mut self, name: &str) -> Result<Option<Link>, CniError> {
        let mut query = LinkMessage::default();
        query.attributes.push(LinkAttribute::IfName(name.to_owned()));
        match self.call(RouteNetlinkMessage::GetLink(query), NLM_F_ACK) {
            Ok(found) => Ok(found.iter().find_map(parse_link)),
            Err(e) if is_missing(&e) => Ok(None),
            Err(e) => Err(CniError::io(format!("look up link {name}"), &e)),
        }
    }

    /// The MTU of the link that packets to the outside leave by; `None` without a default route.
    pub(crate) fn uplink_mtu(&mut self) -> Result<Option<u32>, CniError> {
        // A route look-up sends nothing; the address is one of those reserved for documentation.
        let outside: std::net::Ipv4Addr = [192, 0, 2, 1].into();
        let mut query = RouteMessage::default();
        query.header.address_family = AddressFamily::Inet;
        query.header.destination_prefix_length = 32;
        query.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(outside)));
        let Ok(found) = self.call(RouteNetlinkMessage::GetRoute(query), NLM_F_ACK) else { return Ok(None) };
        let Some(device) = found.iter().find_map(|m| match m {
            RouteNetlinkMessage::NewRoute(route) => parse_route(route).map(|r| r.device),
            _ => None,
        }) else {
            return Ok(None);
        };
        let mut query = LinkMessage::default();
        query.header.index = device;
        let found = self
            .call(RouteNetlinkMessage::GetLink(query), NLM_F_ACK)
            .map_err(|e| CniError::io("look up the uplink", &e))?;
        Ok(found.iter().find_map(parse_link).map(|link| link.mtu))
    }

    pub(crate) fn add_veth(&mut self, pair: &VethPair<'_>) -> Result<(), CniError> {
        let mut peer = LinkMessage::default();
        // The peer is brought up later, inside: at creation it has no other end yet and the kernel refuses.
        peer.attributes = vec![
            LinkAttribute::IfName(pair.peer_name.to_owned()),
            LinkAttribute::Mtu(pair.mtu),
            LinkAttribute::NetNsFd(pair.peer_netns),
        ];
        let mut host = LinkMessage::default();
        host.header.flags = LinkFlags::Up;
        host.header.change_mask = LinkFlags::Up;
        host.attributes = vec![
            LinkAttribute::IfName(pair.host_name.to_owned()),
            LinkAttribute::Mtu(pair.mtu),
            LinkAttribute::Address(pair.host_mac.to_vec()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]),
        ];
        self.call(RouteNetlinkMessage::NewLink(host), NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)
            .map(drop)
            .map_err(|e| {
                CniError::io(format!("create veth pair {} and {}", pair.host_name, pair.peer_name), &e)
            })
    }

    pub(crate) fn set_up(&mut self, link: &Link) -> Result<(), CniError> {
        let mut change = LinkMessage::default();
        change.header.index = link.index;
        change.header.flags = LinkFlags::Up;
        change.header.change_mask = LinkFlags::Up;
        self.call(RouteNetlinkMessage::SetLink(change), NLM_F_ACK)
            .map(drop)
            .map_err(|e| CniError::io(format!("bring up {}", link.name), &e))
    }

    /// Deletes the link named `name`; `false` when there was none.
    pub(crate) fn delete_link(&mut self, name: &str) -> Result<bool, CniError> {
        let mut query = LinkMessage::default();
        query.attributes.push(LinkAttribute::IfName(name.to_owned()));
        match self.call(RouteNetlinkMessage::DelLink(query), NLM_F_ACK) {
            Ok(_) => Ok(true),
            Err(e) if is_missing(&e) => Ok(false),
            Err(e) => Err(CniError::io(format!("delete link {name}"), &e)),
        }
    }

    /// Adds `address` as a single host address.
    pub(crate) fn add_address(&mut self, link: &Link, address: IpAddr) -> Result<(), CniError> {
        let mut message = AddressMessage::default();
        message.header.family = family_of(address);
        message.header.prefix_len = if address.is_ipv4() { 32 } else { 128 };
        message.header.index = link.index;
        message.header.scope = AddressScope::Universe;
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.call(RouteNetlinkMessage::NewAddress(message), NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)
            .map(drop)
            .map_err(|e| CniError::io(format!("add address {address} to {}", link.name), &e))
    }

    /// All IPv4 and IPv6 addresses of the link.
    pub(crate) fn addresses(&mut self, link: &Link) -> Result<Vec<IpAddr>, CniError> {
        let found = self
            .call(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP)
            .map_err(|e| CniError::io("list addresses", &e))?;
        Ok(found
            .iter()
            .filter_map(|m| match m {
                RouteNetlinkMessage::NewAddress(a) if a.header.index == link.index => {
                    a.attributes.iter().find_map(|attr| match attr {
                        AddressAttribute::Address(ip) => Some(*ip),
                        _ => None,
                    })
                }
                _ => None,
            })
            .collect())
    }

    /// Fixes the hardware address of `address` behind the link.
    pub(crate) fn add_neighbour(
        &mut self,
        link: &Link,
        address: std::net::Ipv4Addr,
        mac: [u8; 6],
    ) -> Result<(), CniError> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.ifindex = link.index;
        message.header.state = NeighbourState::Permanent;
        message.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet(address)),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        self.call(RouteNetlinkMessage::NewNeighbour(message), NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE)
            .map(drop)
            .map_err(|e| CniError::io(format!("fix the neighbour {address} of {}", link.name), &e))
    }

    pub(crate) fn add_route(&mut self, route: &RouteSpec) -> std::io::Result<()> {
        let mut message = RouteMessage::default();
        let any = route.destination.or(route.gateway);
        message.header = RouteHeader {
            address_family: any.map_or(AddressFamily::Inet, family_of),
            destination_prefix_length: match route.destination {
                Some(IpAddr::V4(_)) => 32,
                Some(IpAddr::V6(_)) => 128,
                None => 0,
            },
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Boot,
            scope: if route.link_scope { RouteScope::Link } else { RouteScope::Universe },
            kind: RouteType::Unicast,
            flags: if route.gateway.is_some() { RouteFlags::Onlink } else { RouteFlags::empty() },
            ..RouteHeader::default()
        };
        message.attributes.push(RouteAttribute::Oif(route.device));
        if let Some(destination) = route.destination {
            message.attributes.push(RouteAttribute::Destination(destination.into()));
        }
        if let Some(gateway) = route.gateway {
            message.attributes.push(RouteAttribute::Gateway(gateway.into()));
        }
        self.call(RouteNetlinkMessage::NewRoute(message), NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// The main table's IPv4 routes.
    pub(crate) fn routes(&mut self) -> Result<Vec<RouteSpec>, CniError> {
        let mut query = RouteMessage::default();
        query.header.address_family = AddressFamily::Inet;
        let found = self
            .call(RouteNetlinkMessage::GetRoute(query), NLM_F_DUMP)
            .map_err(|e| CniError::io("list routes", &e))?;
        Ok(found
            .iter()
            .filter_map(|m| match m {
                RouteNetlinkMessage::NewRoute(route) if route.header.table == RouteHeader::RT_TABLE_MAIN => {
                    parse_route(route)
                }
                _ => None,
            })
            .collect())
    }
}

fn family_of(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// ENODEV or ENXIO: no such link.
fn is_missing(error: &std::io::Error) -> bool {
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    matches!(error.raw_os_error(), Some(ENODEV | ENXIO))
}

fn parse_link(message: &RouteNetlinkMessage) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(found) = message else { return None };
    let mut link =
        Link { index: found.header.index, up: found.header.flags.contains(LinkFlags::Up), ..Link::default() };
    for attribute in &found.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(mac) => link.mac.clone_from(mac),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            _ => {}
        }
    }
    Some(link)
}

fn parse_route(route: &RouteMessage) -> Option<RouteSpec> {
    let ip = |address: &RouteAddress| match address {
        RouteAddress::Inet(v4) => Some(IpAddr::V4(*v4)),
        RouteAddress::Inet6(v6) => Some(IpAddr::V6(*v6)),
        _ => None,
    };
    let mut spec = RouteSpec {
        destination: None,
        gateway: None,
        device: 0,
        link_scope: route.header.scope == RouteScope::Link,
    };
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(address) => spec.destination = ip(address),
            RouteAttribute::Gateway(address) => spec.gateway = ip(address),
            RouteAttribute::Oif(index) => spec.device = *index,
            _ => {}
        }
    }
    (spec.device != 0).then_some(spec)
}

impl Rtnl {
    /// Sets the link's root queueing discipline. `options` are the discipline's encoded attributes.
    pub(crate) fn set_root_qdisc(
        &mut self,
        device: u32,
        kind: &str,
        options: Vec<u8>,
        flags: u16,
    ) -> std::io::Result<()> {
        use netlink_packet_core::DefaultNla;
        use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
        const TCA_OPTIONS: u16 = 2;
        const NLA_F_NESTED: u16 = 0x8000;
        let mut message = TcMessage::default();
        message.header.index = i32::try_from(device).map_err(std::io::Error::other)?;
        message.header.parent = TcHandle::ROOT;
        message.header.handle = TcHandle { major: 1, minor: 0 };
        message.attributes.push(TcAttribute::Kind(kind.to_owned()));
        message.attributes.push(TcAttribute::Other(DefaultNla::new(TCA_OPTIONS | NLA_F_NESTED, options)));
        self.call(RouteNetlinkMessage::NewQueueDiscipline(message), flags).map(drop)
    }
}
