//! Traffic limits: one token bucket on each end of the pair (towards the pod on the host's end, from the pod on the
//! pod's end), so that no helper device is needed and nothing is left behind.

use netlink_packet_core::{DefaultNla, Emitable, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE};

use crate::args::{Command, Invocation};
use crate::config::{Bandwidth, NetConf};
use crate::error::{CniError, code};
use crate::names::host_interface;
use crate::netlink::Rtnl;
use crate::netns::NetNs;
use crate::plugin::Output;

/// How long a packet may wait in the bucket's queue, as the reference plugin has it: 25 ms.
const LATENCY_MICROS: u64 = 25_000;
const MICROS: u64 = 1_000_000;
/// The kernel's bucket clock runs at 64 ns a tick.
const NANOS_PER_TICK: u64 = 64;

/// The bandwidth plugin, for chains that name one.
pub(crate) fn run(call: &Invocation, conf: &NetConf) -> Result<Output, CniError> {
    if call.command != Command::Add {
        // The buckets die with the pair.
        return Ok(None);
    }
    let previous = conf.prev_result.clone().ok_or_else(|| {
        CniError::new(code::INVALID_CONFIG, "bandwidth must follow another plugin", "prevResult is missing")
    })?;
    if let Some(limits) = &conf.runtime_config.bandwidth {
        apply(&host_interface(call), &call.ifname, &NetNs::require(&call.netns)?, *limits)?;
    }
    Ok(Some(previous))
}

/// Sets both limits; 0 sets none.
pub(crate) fn apply(host: &str, inside: &str, netns: &NetNs, limits: Bandwidth) -> Result<(), CniError> {
    limit(host, limits.ingress_rate, limits.ingress_burst)?;
    netns.enter(|| limit(inside, limits.egress_rate, limits.egress_burst))
}

fn limit(link: &str, rate_bits: u64, burst_bits: u64) -> Result<(), CniError> {
    if rate_bits == 0 {
        return Ok(());
    }
    let mut rtnl = Rtnl::open()?;
    let found = rtnl
        .link(link)?
        .ok_or_else(|| CniError::new(code::IO, "interface is missing", format!("no interface {link}")))?;
    let attributes = token_bucket(rate_bits, burst_bits);
    rtnl.set_root_qdisc(found.index, "tbf", attributes, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE)
        .map_err(|e| CniError::io(format!("limit {link} to {rate_bits} bit/s"), &e))
}

/// `TCA_TBF_PARMS`, `TCA_TBF_BURST` and, for rates above 4 GB/s, `TCA_TBF_RATE64`.
fn token_bucket(rate_bits: u64, burst_bits: u64) -> Vec<u8> {
    const LINKLAYER_ETHERNET: u8 = 1;
    let rate = (rate_bits / 8).max(1);
    let burst = (burst_bits / 8).clamp(1600, u64::from(u32::MAX));
    let limit = (rate * LATENCY_MICROS / MICROS + burst).min(u64::from(u32::MAX));
    let ticks = burst * 1_000_000_000 / rate / NANOS_PER_TICK;
    let mut parms = Vec::with_capacity(36);
    for is_peak in [false, true] {
        parms.extend([0, if is_peak { 0 } else { LINKLAYER_ETHERNET }, 0, 0, 0, 0, 0, 0]);
        let value = if is_peak { 0 } else { rate.min(u64::from(u32::MAX)) };
        parms.extend(saturating(value));
    }
    parms.extend(saturating(limit));
    parms.extend(saturating(ticks));
    parms.extend([0; 4]);
    let mut out = attribute(1, parms);
    out.extend(attribute(6, saturating(burst).to_vec()));
    if rate > u64::from(u32::MAX) {
        out.extend(attribute(4, rate.to_ne_bytes().to_vec()));
    }
    out
}

fn saturating(value: u64) -> [u8; 4] {
    u32::try_from(value).unwrap_or(u32::MAX).to_ne_bytes()
}

fn attribute(kind: u16, value: Vec<u8>) -> Vec<u8> {
    let nla = DefaultNla::new(kind, value);
    let mut out = vec![0; nla.buffer_len()];
    nla.emit(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_megabit_has_the_kernel_layout() {
        let bytes = token_bucket(1_000_000, 800_000);
        // Header, then rate spec: the rate is the third word of the structure.
        assert_eq!(bytes[..4], [40, 0, 1, 0]);
        assert_eq!(u32::from_ne_bytes(bytes[12..16].try_into().unwrap()), 125_000);
        // Limit: 25 ms worth of rate plus the burst.
        assert_eq!(u32::from_ne_bytes(bytes[28..32].try_into().unwrap()), 3_125 + 100_000);
    }

    #[test]
    fn a_tiny_burst_still_holds_one_packet() {
        let bytes = token_bucket(8_000, 8);
        assert_eq!(u32::from_ne_bytes(bytes[44..48].try_into().unwrap()), 1600);
    }
}
