//! Numbers for endpoints in the shared maps: each chain owns a run of them, and an endpoint keeps its number for as
//! long as it can.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

/// A chain's run of numbers and who sits where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u32,
    capacity: u32,
    pub(crate) order: Vec<SocketAddrV4>,
}

/// Hands out runs; sizes are powers of two, returned runs are used again.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    next: u32,
    free: BTreeMap<u32, Vec<u32>>,
}

impl Slots {
    /// The run for `wanted`, which replaces `old`. A chain with a single endpoint needs no number.
    pub(crate) fn place(&mut self, old: Option<Run>, wanted: &[SocketAddrV4]) -> Option<Run> {
        let needed = u32::try_from(wanted.len()).unwrap_or(u32::MAX);
        let mut run = match old {
            Some(run) if needed > 1 && needed <= run.capacity && needed * 4 > run.capacity => run,
            Some(run) => {
                self.release(&run);
                if needed < 2 {
                    return None;
                }
                Run { order: run.order, ..self.allocate(needed) }
            }
            None if needed < 2 => return None,
            None => self.allocate(needed),
        };
        run.order = keep_places(&run.order, wanted);
        Some(run)
    }

    pub(crate) fn release(&mut self, run: &Run) {
        if run.capacity > 0 {
            self.free.entry(run.capacity).or_default().push(run.first);
        }
    }

    fn allocate(&mut self, needed: u32) -> Run {
        let capacity = needed.next_power_of_two();
        let first = self.free.get_mut(&capacity).and_then(Vec::pop).unwrap_or_else(|| {
            let first = self.next;
            self.next += capacity;
            first
        });
        Run { first, capacity, order: Vec::new() }
    }
}

/// Endpoints that stay keep their place, new ones fill the gaps, the last ones fill what is left.
fn keep_places(old: &[SocketAddrV4], wanted: &[SocketAddrV4]) -> Vec<SocketAddrV4> {
    let mut fresh: Vec<SocketAddrV4> = {
        let known: std::collections::HashSet<_> = old.iter().collect();
        wanted.iter().filter(|w| !known.contains(w)).copied().rev().collect()
    };
    let keep: std::collections::HashSet<_> = wanted.iter().collect();
    let mut places: Vec<Option<SocketAddrV4>> = old.iter().map(|o| keep.contains(o).then_some(*o)).collect();
    for place in places.iter_mut().filter(|p| p.is_none()) {
        *place = fresh.pop();
    }
    places.extend(fresh.into_iter().rev().map(Some));
    let mut out = Vec::with_capacity(wanted.len());
    let mut index = 0;
    while index < places.len() {
        match places[index] {
            Some(endpoint) => {
                out.push(endpoint);
                index += 1;
            }
            None => drop(places.swap_remove(index)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<SocketAddrV4> {
        text.split_whitespace().map(|n| format!("10.0.0.{n}:80").parse().unwrap()).collect()
    }

    #[test]
    fn one_change_moves_one_endpoint() {
        assert_eq!(keep_places(&list("1 2 3 4"), &list("1 3 4")), list("1 4 3"));
        assert_eq!(keep_places(&list("1 2 3 4"), &list("1 3 4 5")), list("1 5 3 4"));
        assert_eq!(keep_places(&list("1 2"), &list("1 2 3")), list("1 2 3"));
        assert_eq!(keep_places(&list("1 2 3"), &list("")), list(""));
    }

    #[test]
    fn runs_grow_shrink_and_are_used_again() {
        let mut slots = Slots::default();
        let two = slots.place(None, &list("1 2")).unwrap();
        assert_eq!((two.first, two.capacity), (0, 2));
        let three = slots.place(Some(two), &list("1 2 3")).unwrap();
        assert_eq!((three.first, three.capacity), (2, 4));
        let other = slots.place(None, &list("7 8")).unwrap();
        assert_eq!(other.first, 0);
        assert_eq!(slots.place(Some(three), &list("1")), None);
        assert_eq!(slots.place(None, &list("1 2 3 4")).unwrap().first, 2);
    }
}
