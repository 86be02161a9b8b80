//! The addresses of one family: blocks claimed as needed, and the queue of free addresses, longest idle first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use ipnet::IpNet;

/// Addresses per block: /26 for IPv4, /122 for IPv6, as Calico has it.
const BLOCK_BITS: u8 = 6;

/// Free and used addresses of one range.
#[derive(Debug)]
pub(crate) struct Pool {
    range: IpNet,
    /// Blocks claimed so far, by number.
    claimed: u64,
    used: BTreeSet<IpAddr>,
    /// Free addresses of claimed blocks; the front has been idle longest.
    idle: VecDeque<IpAddr>,
}

impl Pool {
    /// A pool over `range`, as it was: `used` addresses and, for released ones, when (a growing number).
    pub(crate) fn restore(range: IpNet, used: &BTreeSet<IpAddr>, released: &BTreeMap<IpAddr, u64>) -> Self {
        let mut pool = Self { range, claimed: 0, used: BTreeSet::new(), idle: VecDeque::new() };
        pool.used = used.iter().copied().filter(|ip| range.contains(ip)).collect();
        let known = pool.used.iter().chain(released.keys().filter(|ip| range.contains(*ip)));
        let blocks = known.filter_map(|ip| pool.offset(*ip)).map(|offset| (offset >> BLOCK_BITS) + 1).max();
        for _ in 0..blocks.unwrap_or(0) {
            pool.claim_block();
        }
        let mut idle: Vec<IpAddr> = pool.idle.drain(..).filter(|ip| !pool.used.contains(ip)).collect();
        idle.sort_by_key(|ip| (released.get(ip).copied().unwrap_or(0), *ip));
        pool.idle = idle.into();
        pool
    }

    /// The range.
    pub(crate) fn range(&self) -> IpNet {
        self.range
    }

    fn offset(&self, address: IpAddr) -> Option<u64> {
        let (base, ip) = match (self.range.network(), address) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => (u128::from(base.to_bits()), u128::from(ip.to_bits())),
            (IpAddr::V6(base), IpAddr::V6(ip)) => (base.to_bits(), ip.to_bits()),
            _ => return None,
        };
        u64::try_from(ip.checked_sub(base)?).ok()
    }

    fn at(&self, offset: u64) -> Option<IpAddr> {
        let address = match self.range.network() {
            IpAddr::V4(base) => IpAddr::V4(base.to_bits().checked_add(u32::try_from(offset).ok()?)?.into()),
            IpAddr::V6(base) => IpAddr::V6(base.to_bits().checked_add(u128::from(offset))?.into()),
        };
        self.range.contains(&address).then_some(address)
    }

    /// Adds the next block's addresses to the queue; `false` when the range has no more.
    fn claim_block(&mut self) -> bool {
        let start = self.claimed << BLOCK_BITS;
        if self.at(start).is_none() {
            return false;
        }
        for offset in start..start + (1 << BLOCK_BITS) {
            match self.at(offset) {
                Some(ip) if self.is_assignable(ip) => self.idle.push_back(ip),
                _ => {}
            }
        }
        self.claimed += 1;
        true
    }

    /// The range's own first and last address stay free: some software takes them for network and broadcast.
    fn is_assignable(&self, ip: IpAddr) -> bool {
        ip != self.range.network() && (ip.is_ipv6() || ip != self.range.broadcast())
    }

    /// The next address; `None` when all are in use.
    pub(crate) fn take(&mut self) -> Option<IpAddr> {
        while self.idle.is_empty() {
            if !self.claim_block() {
                return None;
            }
        }
        let ip = self.idle.pop_front()?;
        self.used.insert(ip);
        Some(ip)
    }

    /// Puts an address at the end of the queue; one that was not in use is left alone.
    pub(crate) fn release(&mut self, ip: IpAddr) {
        if self.used.remove(&ip) {
            self.idle.push_back(ip);
        }
    }

    /// Whether an address is free.
    pub(crate) fn has_room(&self) -> bool {
        !self.idle.is_empty() || self.at(self.claimed << BLOCK_BITS).is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pool(range: &str) -> Pool {
        Pool::restore(range.parse().unwrap(), &BTreeSet::new(), &BTreeMap::new())
    }

    #[test]
    fn a_full_range_yields_nothing_until_a_release() {
        let mut pool = pool("10.1.0.0/30");
        let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken, ["10.1.0.1", "10.1.0.2"].map(|ip| ip.parse::<IpAddr>().unwrap()));
        assert!(!pool.has_room());
        pool.release(taken[0]);
        assert_eq!(pool.take(), Some(taken[0]));
    }

    #[test]
    fn the_longest_idle_address_comes_first() {
        let mut pool = pool("10.1.0.0/26");
        let first = pool.take().unwrap();
        pool.release(first);
        let rest: Vec<_> = (0..61).map(|_| pool.take().unwrap()).collect();
        assert!(!rest.contains(&first));
        assert_eq!(pool.take(), Some(first));
    }

    #[test]
    fn restoring_keeps_use_and_order() {
        let ip = |s: &str| s.parse::<IpAddr>().unwrap();
        let used = BTreeSet::from([ip("10.1.0.70")]);
        let released = BTreeMap::from([(ip("10.1.0.1"), 9), (ip("10.1.0.2"), 5)]);
        let mut pool = Pool::restore("10.1.0.0/24".parse().unwrap(), &used, &released);
        let taken: Vec<_> = (0..126).map(|_| pool.take().unwrap()).collect();
        assert!(!taken.contains(&ip("10.1.0.70")));
        assert_eq!(taken[124..], [ip("10.1.0.2"), ip("10.1.0.1")]);
    }

    proptest! {
        #[test]
        fn no_address_is_ever_given_twice(steps in proptest::collection::vec(any::<bool>(), 1..300)) {
            let mut pool = pool("10.1.0.0/25");
            let mut held = Vec::new();
            for take in steps {
                if take {
                    if let Some(ip) = pool.take() {
                        prop_assert!(!held.contains(&ip));
                        held.push(ip);
                    } else {
                        prop_assert_eq!(held.len(), 126);
                    }
                } else if !held.is_empty() {
                    pool.release(held.remove(0));
                }
            }
        }
    }
}
