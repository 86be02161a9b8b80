//! The libraries of functions, and the values they bring.

use std::{net::IpAddr, sync::Arc};

use copepod_api::quantity::Quantity;

pub(crate) mod authz;
pub(crate) mod core;
pub(crate) mod format;
pub(crate) mod lists;
pub(crate) mod named;
pub(crate) mod net;
pub(crate) mod optional;
pub(crate) mod quantity;
pub(crate) mod semver;
pub(crate) mod sets;
pub(crate) mod strings;
pub(crate) mod time;
pub(crate) mod url;

/// A value of a library.
#[derive(Debug, Clone, PartialEq)]
pub enum Opaque<'a> {
    /// `kubernetes.Quantity`
    Quantity(Quantity),
    /// `net.IP`
    Ip(IpAddr),
    /// `net.CIDR`: an address and the length of its prefix.
    Cidr(IpAddr, u8),
    /// `kubernetes.URL`
    Url(Arc<url::Url>),
    /// `kubernetes.Semver`
    Semver(Arc<semver::Version>),
    /// `kubernetes.NamedFormat`
    Format(&'static named::Format),
    /// What may be asked of the authorizer.
    Authz(authz::Authz<'a>),
}

impl Opaque<'_> {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Authz(value) => value.type_name(),
        }
    }

    /// The size that costs depend on.
    pub(crate) fn size(&self) -> u64 {
        let bits = |ip: &IpAddr| if ip.is_ipv4() { 4 } else { 16 };
        match self {
            Self::Ip(ip) => bits(ip),
            Self::Cidr(_, length) => u64::from(*length).div_ceil(8),
            _ => 1,
        }
    }
}
