//! Node pressure: when a resource runs short, and what is told about it. Pure; [`rank`] says who has to go.
//!
//! A threshold is met when less than its value is available; a soft one has to stay met for its grace period. A
//! condition, once seen, holds for the transition period, so that it does not flap.

pub mod rank;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use copepod_api::Quantity;
use tokio::time::Instant;

use crate::config::Config;
use crate::node::status::{Pressure, threshold_amount};

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Memory that could be given out.
    MemoryAvailable,
    /// Bytes of the kubelet's file system.
    NodeFsAvailable,
    /// Inodes of the kubelet's file system.
    NodeFsInodesFree,
    /// Bytes of the images' file system.
    ImageFsAvailable,
    /// Inodes of the images' file system.
    ImageFsInodesFree,
    /// Process ids.
    PidAvailable,
}

/// A node condition that pressure sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Condition {
    Memory,
    Disk,
    Pid,
}

impl Signal {
    const ALL: [(&'static str, Self); 6] = [
        ("memory.available", Self::MemoryAvailable),
        ("nodefs.available", Self::NodeFsAvailable),
        ("nodefs.inodesFree", Self::NodeFsInodesFree),
        ("imagefs.available", Self::ImageFsAvailable),
        ("imagefs.inodesFree", Self::ImageFsInodesFree),
        ("pid.available", Self::PidAvailable),
    ];

    /// Reads the configuration's name of a signal.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|(_, signal)| *signal)
    }

    fn condition(self) -> Condition {
        match self {
            Self::MemoryAvailable => Condition::Memory,
            Self::PidAvailable => Condition::Pid,
            _ => Condition::Disk,
        }
    }

    /// The resource that eviction frees.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory",
            Self::NodeFsAvailable | Self::ImageFsAvailable => "ephemeral-storage",
            Self::NodeFsInodesFree | Self::ImageFsInodesFree => "inodes",
            Self::PidAvailable => "pids",
        }
    }
}

/// What was found of one signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observation {
    /// What is left.
    pub available: u64,
    /// What there is in all.
    pub capacity: u64,
}

/// What was found of all of them; a signal that could not be read is absent.
pub type Observations = BTreeMap<Signal, Observation>;

/// One threshold of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threshold {
    /// What it is about.
    pub signal: Signal,
    /// A quantity, or a percentage of the capacity.
    value: String,
    /// How long it has to be met; at once when hard.
    grace: Option<Duration>,
    /// How much more than the value has to be reclaimed.
    min_reclaim: Option<String>,
}

fn amount(text: &str, capacity: u64) -> u64 {
    let whole = Quantity::from_bytes(i64::try_from(capacity).unwrap_or(i64::MAX));
    threshold_amount(text, whole).and_then(|q| u64::try_from(q.units()).ok()).unwrap_or(0)
}

impl Threshold {
    /// Whether pods get no time to end.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.grace.is_none()
    }

    /// The value in units of its signal.
    #[must_use]
    pub fn quantity(&self, seen: Observation) -> u64 {
        amount(&self.value, seen.capacity)
    }

    fn is_met(&self, observations: &Observations, with_reclaim: bool) -> bool {
        let Some(seen) = observations.get(&self.signal) else { return false };
        let extra =
            self.min_reclaim.as_deref().filter(|_| with_reclaim).map_or(0, |t| amount(t, seen.capacity));
        seen.available < self.quantity(*seen) + extra
    }
}

/// The thresholds of a configuration; unknown signals are left out.
#[must_use]
pub fn thresholds(config: &Config) -> Vec<Threshold> {
    let reclaim = |name: &str| config.eviction_minimum_reclaim.get(name).cloned();
    let read = |name: &String, value: &String, grace| {
        let signal = Signal::parse(name)?;
        Some(Threshold { signal, value: value.clone(), grace, min_reclaim: reclaim(name) })
    };
    let hard = config.eviction_hard.iter().filter_map(|(name, value)| read(name, value, None));
    let soft = config.eviction_soft.iter().filter_map(|(name, value)| {
        read(name, value, Some(config.eviction_soft_grace_period.get(name).copied()?))
    });
    hard.chain(soft).collect()
}

/// Remembers what was met when.
#[derive(Debug)]
pub struct Monitor {
    thresholds: Vec<Threshold>,
    transition: Duration,
    first_met: BTreeMap<usize, Instant>,
    met: BTreeSet<usize>,
    seen: BTreeMap<Condition, Instant>,
}

/// The outcome of one look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The node's conditions.
    pub pressure: Pressure,
    /// What to reclaim first.
    pub reclaim: Option<Threshold>,
}

impl Monitor {
    /// A monitor of these thresholds; conditions hold for `transition` after they were last seen.
    #[must_use]
    pub fn new(thresholds: Vec<Threshold>, transition: Duration) -> Self {
        Self {
            thresholds,
            transition,
            first_met: BTreeMap::new(),
            met: BTreeSet::new(),
            seen: BTreeMap::new(),
        }
    }

    /// Compares what was found with the thresholds.
    pub fn look(&mut self, observations: &Observations, now: Instant) -> Verdict {
        let met: BTreeSet<usize> = (0..self.thresholds.len())
            .filter(|i| self.thresholds[*i].is_met(observations, self.met.contains(i)))
            .collect();
        self.first_met.retain(|index, _| met.contains(index));
        for index in &met {
            self.first_met.entry(*index).or_insert(now);
            self.seen.insert(self.thresholds[*index].signal.condition(), now);
        }
        let transition = self.transition;
        self.seen.retain(|_, last| now.saturating_duration_since(*last) < transition || *last == now);
        let due = |index: &usize| {
            let since = self.first_met.get(index).copied().unwrap_or(now);
            let grace = self.thresholds[*index].grace.unwrap_or_default();
            now.saturating_duration_since(since) >= grace
        };
        self.met = met.iter().copied().filter(due).collect();
        // Memory first; the order of signals says the rest.
        let reclaim = self.met.iter().map(|i| &self.thresholds[*i]).min_by_key(|t| (t.signal, !t.is_hard()));
        let on = |condition| self.seen.contains_key(&condition);
        Verdict {
            pressure: Pressure {
                memory: on(Condition::Memory),
                disk: on(Condition::Disk),
                pids: on(Condition::Pid),
            },
            reclaim: reclaim.cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(available: u64) -> Observations {
        Observations::from([(Signal::MemoryAvailable, Observation { available, capacity: 1000 })])
    }

    fn threshold(value: &str, grace: Option<u64>, min_reclaim: Option<&str>) -> Threshold {
        Threshold {
            signal: Signal::MemoryAvailable,
            value: value.to_owned(),
            grace: grace.map(Duration::from_secs),
            min_reclaim: min_reclaim.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn a_hard_threshold_acts_at_once_and_its_condition_stays_a_while() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut monitor = Monitor::new(vec![threshold("10%", None, Some("50"))], Duration::from_secs(300));
        assert_eq!(monitor.look(&memory(100), at(0)), Verdict::default());
        let verdict = monitor.look(&memory(99), at(10));
        assert!(verdict.pressure.memory && verdict.reclaim.is_some());
        assert!(monitor.look(&memory(149), at(20)).reclaim.is_some(), "the least to reclaim is not reached");
        let after = monitor.look(&memory(150), at(30));
        assert!(after.reclaim.is_none() && after.pressure.memory);
        assert!(monitor.look(&memory(150), at(319)).pressure.memory);
        assert!(!monitor.look(&memory(150), at(320)).pressure.memory);
    }

    #[tokio::test]
    async fn a_soft_threshold_waits() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut monitor = Monitor::new(vec![threshold("200", Some(30), None)], Duration::from_secs(300));
        assert!(monitor.look(&memory(100), at(0)).reclaim.is_none());
        assert!(monitor.look(&memory(300), at(20)).reclaim.is_none());
        assert!(monitor.look(&memory(100), at(25)).reclaim.is_none(), "it begins anew");
        assert!(monitor.look(&memory(100), at(55)).reclaim.is_some_and(|t| !t.is_hard()));
    }
}
