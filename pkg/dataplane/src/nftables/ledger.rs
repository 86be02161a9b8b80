//! Who needs which element. Several ports can need the same one (a cluster address, a hairpin) or claim the same key
//! (two Services with one external address); the first claim holds until it goes.

use std::collections::BTreeMap;

use copepod_netcalc::PortName;

use super::model::{Key, SetId, Value};

/// An element's place.
pub(crate) type Place = (SetId, Key);

/// All claims, and the changes they bring.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    claims: BTreeMap<Place, Vec<(PortName, Value)>>,
}

/// Elements to remove and to add; a changed value is both.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) remove: BTreeMap<Place, Value>,
    pub(crate) add: BTreeMap<Place, Value>,
}

impl Ledger {
    /// What the kernel should hold.
    pub(crate) fn elements(&self) -> impl Iterator<Item = (Place, &Value)> {
        self.claims.iter().filter_map(|(place, claims)| claims.first().map(|(_, value)| (*place, value)))
    }

    pub(crate) fn len(&self) -> usize {
        self.claims.len()
    }

    /// Replaces `port`'s claims `old` by `new`, and notes in `delta` what changes for the kernel.
    pub(crate) fn change(
        &mut self,
        port: &PortName,
        old: &BTreeMap<Place, Value>,
        new: &BTreeMap<Place, Value>,
        delta: &mut Delta,
    ) {
        for (place, value) in old {
            if new.get(place) != Some(value) {
                self.update(*place, delta, |claims| claims.retain(|(owner, _)| owner != port));
            }
        }
        for (place, value) in new {
            if old.get(place) != Some(value) {
                self.update(*place, delta, |claims| claims.push((port.clone(), value.clone())));
            }
        }
    }

    fn update(&mut self, place: Place, delta: &mut Delta, edit: impl FnOnce(&mut Vec<(PortName, Value)>)) {
        let claims = self.claims.entry(place).or_default();
        let before = claims.first().map(|(_, value)| value.clone());
        edit(claims);
        let after = claims.first().map(|(_, value)| value.clone());
        if claims.is_empty() {
            self.claims.remove(&place);
        }
        if before != after {
            delta.note(place, before, after);
        }
    }
}

impl Delta {
    fn note(&mut self, place: Place, before: Option<Value>, after: Option<Value>) {
        // Something added earlier in this round was never in the kernel; what was removed earlier still is.
        if let Some(before) = before
            && self.add.remove(&place).is_none()
        {
            self.remove.insert(place, before);
        }
        if let Some(after) = after {
            if self.remove.get(&place) == Some(&after) {
                self.remove.remove(&place);
            } else {
                self.add.insert(place, after);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use copepod_netcalc::{Protocol, ServiceName};

    use super::*;

    fn port(name: &str) -> PortName {
        PortName { service: ServiceName::new("ns", name), port: "".into(), protocol: Protocol::Tcp }
    }

    fn one(value: &str) -> BTreeMap<Place, Value> {
        BTreeMap::from([((SetId::ServiceNodePorts, Key::Port(6, 30_000)), Value::Goto(value.into()))])
    }

    #[test]
    fn the_second_claim_takes_over_when_the_first_goes() {
        let mut ledger = Ledger::default();
        let mut delta = Delta::default();
        let none = BTreeMap::new();
        ledger.change(&port("a"), &none, &one("a"), &mut delta);
        ledger.change(&port("b"), &none, &one("b"), &mut delta);
        assert_eq!(delta.add, one("a"));
        let mut delta = Delta::default();
        ledger.change(&port("a"), &one("a"), &none, &mut delta);
        assert_eq!((delta.remove, delta.add), (one("a"), one("b")));
    }

    #[test]
    fn a_round_trip_is_no_change() {
        let mut ledger = Ledger::default();
        let mut delta = Delta::default();
        let none = BTreeMap::new();
        ledger.change(&port("a"), &none, &one("a"), &mut delta);
        let mut delta = Delta::default();
        ledger.change(&port("a"), &one("a"), &none, &mut delta);
        ledger.change(&port("a"), &none, &one("a"), &mut delta);
        assert_eq!(delta, Delta::default());
    }
}
