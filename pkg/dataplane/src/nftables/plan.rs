//! The difference between two renderings, in the order the kernel needs it.

use std::collections::{BTreeMap, BTreeSet};

use nlink::netlink::nftables::{Chain, Family, Rule as KernelRule, SetElement, Transaction};

use super::driver::TABLE;
use super::ledger::Delta;
use super::model::{Rule, SetId};
use super::render::Rendered;
use super::wire;
use crate::nft::{NftError, chunked_elements};

/// One round's changes, over all ports it concerns.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) elements: Delta,
    new_sets: BTreeMap<String, u32>,
    old_sets: BTreeSet<String>,
    new_chains: BTreeSet<String>,
    old_chains: BTreeSet<String>,
    /// Chains to rewrite, new ones included.
    bodies: BTreeMap<String, Vec<Rule>>,
}

impl Plan {
    /// Adds what one port's change from `old` to `new` needs (elements are the ledger's affair).
    pub(crate) fn diff(&mut self, old: &Rendered, new: &Rendered) {
        for (chain, rules) in &new.chains {
            match old.chains.get(chain) {
                Some(before) if before == rules => continue,
                Some(_) => {}
                None if self.old_chains.remove(chain) => {}
                None => drop(self.new_chains.insert(chain.clone())),
            }
            self.bodies.insert(chain.clone(), rules.clone());
        }
        for chain in old.chains.keys().filter(|c| !new.chains.contains_key(*c)) {
            self.bodies.remove(chain);
            if !self.new_chains.remove(chain) {
                self.old_chains.insert(chain.clone());
            }
        }
        for (set, seconds) in &new.sets {
            match old.sets.get(set) {
                Some(before) if before == seconds => {}
                before => {
                    if before.is_some() {
                        self.old_sets.insert(set.clone());
                    }
                    self.new_sets.insert(set.clone(), *seconds);
                }
            }
        }
        self.old_sets.extend(old.sets.keys().filter(|s| !new.sets.contains_key(*s)).cloned());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.elements == Delta::default()
            && self.bodies.is_empty()
            && self.old_chains.is_empty()
            && self.new_sets.is_empty()
            && self.old_sets.is_empty()
    }

    /// Whether an affinity set changes its timeout in place, which needs the whole table to be written anew.
    pub(crate) fn replaces_set(&self) -> bool {
        self.new_sets.keys().any(|set| self.old_sets.contains(set))
    }

    /// Writes the plan: first what lets go, then what is new, at last what nothing holds any more.
    pub(crate) fn write(&self, mut tx: Transaction) -> Result<Transaction, NftError> {
        for id in SetId::ALL {
            let gone: Vec<SetElement> = self
                .elements
                .remove
                .keys()
                .filter(|(set, _)| *set == id)
                .map(|(_, key)| wire::element_key(*key))
                .collect();
            for chunk in gone.chunks(400) {
                tx = tx.del_set_elements(&wire::declare(id), chunk);
            }
        }
        for (set, seconds) in &self.new_sets {
            tx = tx.add_set(wire::declare_affinity(set, *seconds));
        }
        for chain in &self.new_chains {
            tx = tx
                .add_chain(Chain::new(TABLE, chain.as_str()).map_err(NftError::Netlink)?.family(Family::Ip));
        }
        let rewritten = self.bodies.keys().filter(|c| !self.new_chains.contains(*c));
        for chain in rewritten.chain(&self.old_chains) {
            tx = tx.flush_chain(TABLE, chain, Family::Ip);
        }
        for (chain, rules) in &self.bodies {
            tx = write_rules(tx, chain, rules);
        }
        for id in SetId::ALL {
            let fresh: Vec<SetElement> = self
                .elements
                .add
                .iter()
                .filter(|((set, _), _)| *set == id)
                .map(|((_, key), value)| wire::element(*key, value))
                .collect();
            tx = chunked_elements(tx, &wire::declare(id), &fresh);
        }
        for chain in &self.old_chains {
            tx = tx.del_chain(TABLE, chain, Family::Ip);
        }
        for set in &self.old_sets {
            tx = tx.del_set(TABLE, set, Family::Ip);
        }
        Ok(tx)
    }
}

/// Appends `rules` to `chain`.
pub(crate) fn write_rules(mut tx: Transaction, chain: &str, rules: &[Rule]) -> Transaction {
    for rule in rules {
        tx = tx
            .add_rule(KernelRule::new(TABLE, chain).family(Family::Ip).expressions(wire::expressions(rule)));
    }
    tx
}
