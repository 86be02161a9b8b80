//! The node's network links: loopback, and a veth pair to the outside client's namespace. One blocking netlink socket.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::TestkitError;

/// A netlink socket of the network namespace that the thread was in when it was opened.
pub(super) struct Links {
    socket: Socket,
}

impl Links {
    /// Opens a socket in the calling thread's namespace.
    pub(super) fn open() -> Result<Self, TestkitError> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        let socket =
            open().map_err(|source| TestkitError::Link { action: "open netlink".to_string(), source })?;
        Ok(Self { socket })
    }

    /// Makes a veth pair; the far end `peer` appears in the network namespace behind `namespace`.
    pub(super) fn add_veth(&self, name: &str, peer: &str, namespace: i32) -> Result<(), TestkitError> {
        let mut far = LinkMessage::default();
        far.attributes = vec![LinkAttribute::IfName(peer.to_string()), LinkAttribute::NetNsFd(namespace)];
        let mut link = LinkMessage::default();
        link.attributes = vec![
            LinkAttribute::IfName(name.to_string()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(far))),
            ]),
        ];
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.request(RouteNetlinkMessage::NewLink(link), flags, || format!("add {name}"))
    }

    /// Switches a link on.
    pub(super) fn up(&self, name: &str) -> Result<(), TestkitError> {
        let mut link = LinkMessage::default();
        link.attributes = vec![LinkAttribute::IfName(name.to_string())];
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        self.request(RouteNetlinkMessage::SetLink(link), 0, || format!("switch on {name}"))
    }

    /// Gives a link an address.
    pub(super) fn add_address(&self, name: &str, address: Ipv4Addr, prefix: u8) -> Result<(), TestkitError> {
        let index = self.index_of(name)?;
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = prefix;
        message.header.index = index;
        message.attributes = vec![
            AddressAttribute::Local(IpAddr::V4(address)),
            AddressAttribute::Address(IpAddr::V4(address)),
        ];
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.request(RouteNetlinkMessage::NewAddress(message), flags, || format!("add address {address}"))
    }

    /// Sends everything without a better route to `gateway`.
    pub(super) fn add_default_route(&self, gateway: Ipv4Addr) -> Result<(), TestkitError> {
        let mut route = RouteMessage::default();
        route.header = RouteHeader {
            address_family: AddressFamily::Inet,
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Boot,
            scope: RouteScope::Universe,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        route.attributes = vec![RouteAttribute::Gateway(RouteAddress::Inet(gateway))];
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.request(RouteNetlinkMessage::NewRoute(route), flags, || format!("route to {gateway}"))
    }

    fn index_of(&self, name: &str) -> Result<u32, TestkitError> {
        let failed = |source| TestkitError::Link { action: format!("find {name}"), source };
        let mut link = LinkMessage::default();
        link.attributes = vec![LinkAttribute::IfName(name.to_string())];
        match self.exchange(RouteNetlinkMessage::GetLink(link), NLM_F_REQUEST).map_err(failed)? {
            Some(RouteNetlinkMessage::NewLink(found)) => Ok(found.header.index),
            other => Err(failed(io::Error::other(format!("netlink answered {other:?}")))),
        }
    }

    fn request(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
        action: impl Fn() -> String,
    ) -> Result<(), TestkitError> {
        let answer = self.exchange(message, NLM_F_REQUEST | NLM_F_ACK | flags);
        answer.map(|_| ()).map_err(|source| TestkitError::Link { action: action(), source })
    }

    /// Sends one message and reads one answer: what was asked for, or nothing where that was an acknowledgement.
    fn exchange(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Option<RouteNetlinkMessage>> {
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let (answer, _) = self.socket.recv_from_full()?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            NetlinkPayload::Error(_) => Ok(None),
            NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
            other => Err(io::Error::other(format!("netlink answered {other:?}"))),
        }
    }
}
