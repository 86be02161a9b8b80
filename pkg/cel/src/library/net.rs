//! IP addresses and ranges.

use std::net::IpAddr;

use super::{Opaque, core::text};
use crate::{
    functions::Function,
    value::{Failure, Result, Val},
};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "isIP",
        overloads: &["(string) bool"],
        run: |a| Ok(Val::Bool(parse(text(a.first())?).is_ok())),
    },
    Function { name: "ip.isCanonical", overloads: &["(string) bool"], run: canonical },
    Function {
        name: "family",
        overloads: &["ip.() int"],
        run: |a| Ok(Val::Int(if addr(a.first())?.is_ipv4() { 4 } else { 6 })),
    },
    Function { name: "isUnspecified", overloads: IP, run: |a| is(a, |ip| ip.is_unspecified()) },
    Function { name: "isLoopback", overloads: IP, run: |a| is(a, |ip| ip.is_loopback()) },
    Function { name: "isLinkLocalMulticast", overloads: IP, run: |a| is(a, local_multicast) },
    Function { name: "isLinkLocalUnicast", overloads: IP, run: |a| is(a, local_unicast) },
    Function { name: "isGlobalUnicast", overloads: IP, run: |a| is(a, global_unicast) },
    Function {
        name: "cidr",
        overloads: &["(string) cidr"],
        run: |a| range(text(a.first())?).map(|(ip, n)| Val::Opaque(Opaque::Cidr(ip, n))),
    },
    Function {
        name: "isCIDR",
        overloads: &["(string) bool"],
        run: |a| Ok(Val::Bool(range(text(a.first())?).is_ok())),
    },
    Function { name: "containsIP", overloads: &["cidr.(string) bool", "cidr.(ip) bool"], run: contains_ip },
    Function {
        name: "containsCIDR",
        overloads: &["cidr.(string) bool", "cidr.(cidr) bool"],
        run: contains_cidr,
    },
    Function {
        name: "prefixLength",
        overloads: &["cidr.() int"],
        run: |a| Ok(Val::Int(net(a.first())?.1.into())),
    },
    Function {
        name: "masked",
        overloads: &["cidr.() cidr"],
        run: |a| {
            let (ip, length) = net(a.first())?;
            Ok(Val::Opaque(Opaque::Cidr(masked(ip, length), length)))
        },
    },
];

const IP: &[&str] = &["ip.() bool"];

fn parse(raw: &str) -> Result<IpAddr> {
    if raw.contains('%') {
        return Err(Failure::new(format!("IP address {raw:?} with zone value is not allowed")));
    }
    let ip: IpAddr = raw.parse().map_err(|_| {
        let why = format!("ParseAddr({raw:?}): unable to parse IP");
        Failure::new(format!("IP Address {raw:?} parse error during conversion from string: {why}"))
    })?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(Failure::new(format!("IPv4-mapped IPv6 address {raw:?} is not allowed")))
        }
        ip => Ok(ip),
    }
}

fn range(raw: &str) -> Result<(IpAddr, u8)> {
    let wrong = |why: &str| {
        Failure::new(format!(
            "network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix({raw:?}): {why}"
        ))
    };
    let (ip, length) = raw.split_once('/').ok_or_else(|| wrong("no '/'"))?;
    let address: IpAddr = ip.parse().map_err(|_| wrong("unable to parse IP"))?;
    if matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
        return Err(Failure::new(format!("IPv4-mapped IPv6 address {raw:?} is not allowed")));
    }
    let plain = !length.is_empty() && length.chars().all(|c| c.is_ascii_digit());
    let strict = plain && (length.len() == 1 || !length.starts_with('0'));
    let length: u8 = length.parse().ok().filter(|_| strict).ok_or_else(|| wrong("bad bits after slash"))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    if length > most {
        return Err(wrong("prefix length out of range"));
    }
    Ok((address, length))
}

fn addr(value: Option<&Val<'_>>) -> Result<IpAddr> {
    match value {
        Some(Val::Opaque(Opaque::Ip(ip))) => Ok(*ip),
        _ => Err(Failure::overload()),
    }
}

fn net(value: Option<&Val<'_>>) -> Result<(IpAddr, u8)> {
    match value {
        Some(Val::Opaque(Opaque::Cidr(ip, length))) => Ok((*ip, *length)),
        _ => Err(Failure::overload()),
    }
}

/// `ip()`
pub(crate) fn ip<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let ip = match args {
        [Val::Text(text)] => parse(text)?,
        [value] => net(Some(value))?.0,
        _ => return Err(Failure::overload()),
    };
    Ok(Val::Opaque(Opaque::Ip(ip)))
}

fn canonical<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let raw = text(args.first())?;
    Ok(Val::Bool(parse(raw)?.to_string() == **raw))
}

fn is<'a>(args: &[Val<'a>], holds: fn(IpAddr) -> bool) -> Result<Val<'a>> {
    Ok(Val::Bool(holds(addr(args.first())?)))
}

fn local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
        IpAddr::V6(v6) => v6.segments().first().is_some_and(|first| first & 0xff0f == 0xff02),
    }
}

fn local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn global_unicast(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !(broadcast || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || local_unicast(ip))
}

fn masked(ip: IpAddr, length: u8) -> IpAddr {
    ipnet::IpNet::new(ip, length).map_or(ip, |net| net.network())
}

fn contains(of: (IpAddr, u8), ip: IpAddr) -> bool {
    ipnet::IpNet::new(of.0, of.1).is_ok_and(|net| net.contains(&ip))
}

fn contains_ip<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let of = net(args.first())?;
    let ip = match args.get(1) {
        Some(Val::Text(text)) => parse(text).map_err(|_| Failure::overload())?,
        other => addr(other)?,
    };
    Ok(Val::Bool(contains(of, ip)))
}

fn contains_cidr<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let of = net(args.first())?;
    let (ip, length) = match args.get(1) {
        Some(Val::Text(text)) => range(text).map_err(|_| Failure::overload())?,
        other => net(other)?,
    };
    Ok(Val::Bool(contains(of, ip) && of.1 <= length))
}
