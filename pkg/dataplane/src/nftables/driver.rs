//! Commits changes to the kernel and puts back what others take away.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use copepod_netcalc::{Change, Family, PortName, PortRules, ServiceName};
use nlink::netlink::nftables::{Chain, Family as KernelFamily, SetElement};

use super::base::{PLAIN_CHAINS, base_chains, base_rules};
use super::ledger::Ledger;
use super::model::{Key, Rule, SetId, Value};
use super::plan::{Plan, write_rules};
use super::render::{Rendered, Runs, render, targets};
use super::slots::Slots;
use super::wire;
use crate::nft::{NftError, Session, TableWatch, chunked_elements};
use crate::settings::Settings;

/// The table, named as upstream's.
pub const TABLE: &str = "kube-proxy";

/// Numbers of hand-written set declarations within a transaction, far from those the library gives out.
const NUMBERED: u32 = 1 << 20;

#[derive(Debug, Default)]
struct Programmed {
    rules: Option<PortRules>,
    runs: Runs,
    rendered: Rendered,
}

/// The driver. See the module's documentation.
#[derive(Debug)]
pub struct NftablesDriver {
    session: Session,
    watch: TableWatch,
    settings: Settings,
    slots: Slots,
    ledger: Ledger,
    ports: HashMap<PortName, Programmed>,
    services: BTreeMap<ServiceName, BTreeSet<PortName>>,
    /// Set until the table is known to be ours.
    stale: bool,
}

impl NftablesDriver {
    /// Opens the driver in the current network namespace; nothing is written before the first [`Self::apply`].
    ///
    /// # Errors
    /// When netlink cannot be opened.
    pub fn open(settings: Settings) -> Result<Self, NftError> {
        let session = Session::open(TABLE)?;
        let watch = TableWatch::open(&[TABLE], Some(session.port()))?;
        Ok(Self {
            session,
            watch,
            settings,
            slots: Slots::default(),
            ledger: Ledger::default(),
            ports: HashMap::new(),
            services: BTreeMap::new(),
            stale: true,
        })
    }

    /// Makes the kernel follow `changes`; returns how many elements and chains the table holds.
    ///
    /// # Errors
    /// The kernel's refusal; nothing was changed then, and the next call writes the whole table.
    pub async fn apply(&mut self, changes: &[Change]) -> Result<(), NftError> {
        let mut plan = Plan::default();
        for change in changes {
            self.plan_service(change, &mut plan);
        }
        if self.stale || plan.replaces_set() {
            return self.resync().await;
        }
        if plan.is_empty() {
            return Ok(());
        }
        self.stale = true;
        let tx = plan.write(self.session.begin())?;
        if let Err(error) = self.session.commit(tx).await {
            tracing::warn!(%error, cause = ?std::error::Error::source(&error), "writing the whole table instead");
            return self.resync().await;
        }
        self.stale = false;
        Ok(())
    }

    fn plan_service(&mut self, change: &Change, plan: &mut Plan) {
        let wanted: BTreeMap<PortName, &PortRules> =
            change.ports.iter().filter(|p| p.family == Family::V4).map(|p| (p.name.clone(), p)).collect();
        let names: BTreeSet<PortName> = wanted.keys().cloned().collect();
        let before = self.services.remove(&change.service).unwrap_or_default();
        for gone in before.difference(&names) {
            self.plan_port(gone, None, plan);
        }
        for (name, rules) in &wanted {
            self.plan_port(name, Some(rules), plan);
        }
        if !names.is_empty() {
            self.services.insert(change.service.clone(), names);
        }
    }

    fn plan_port(&mut self, name: &PortName, rules: Option<&PortRules>, plan: &mut Plan) {
        let old = self.ports.remove(name).unwrap_or_default();
        if rules.is_some() && old.rules.as_ref() == rules {
            self.ports.insert(name.clone(), old);
            return;
        }
        let cluster = rules.map(|r| targets(&r.cluster)).unwrap_or_default();
        let local = rules.map(|r| targets(&r.local)).unwrap_or_default();
        let runs = Runs {
            cluster: self.slots.place(old.runs.cluster, &cluster),
            local: self.slots.place(old.runs.local, &local),
        };
        let rendered = rules.map(|r| render(r, &runs, &self.settings)).unwrap_or_default();
        self.ledger.change(name, &old.rendered.elements, &rendered.elements, &mut plan.elements);
        plan.diff(&old.rendered, &rendered);
        if let Some(rules) = rules {
            self.ports.insert(name.clone(), Programmed { rules: Some(rules.clone()), runs, rendered });
        }
    }

    /// Writes the whole table anew, in one transaction.
    ///
    /// # Errors
    /// The kernel's refusal; the table is as it was then.
    pub async fn resync(&mut self) -> Result<(), NftError> {
        self.stale = true;
        let mut tx = self.session.begin_replace();
        for id in SetId::ALL {
            tx = match id {
                SetId::ServiceEndpoints => tx.raw(wire::declare_numbered(id, NUMBERED)),
                SetId::AffinityEndpoints => tx.raw(wire::declare_numbered(id, NUMBERED + 1)),
                _ => tx.add_set(wire::declare(id)),
            };
        }
        for (name, base) in base_chains() {
            tx = tx.add_chain(chain(name)?.base(base));
        }
        let ours = self.ports.values().flat_map(|p| p.rendered.chains.iter());
        for name in PLAIN_CHAINS.iter().copied().chain(ours.clone().map(|(name, _)| name.as_str())) {
            tx = tx.add_chain(chain(name)?);
        }
        for (set, seconds) in self.ports.values().flat_map(|p| &p.rendered.sets) {
            tx = tx.add_set(wire::declare_affinity(set, *seconds));
        }
        for (name, rule) in base_rules(&self.settings) {
            tx = write_rules(tx, name, &[rule]);
        }
        for (name, rules) in ours {
            tx = write_rules(tx, name, rules);
        }
        let mut elements: BTreeMap<SetId, Vec<SetElement>> = BTreeMap::new();
        for ((set, key), value) in self.ledger.elements() {
            elements.entry(set).or_default().push(wire::element(key, value));
        }
        for ip in self.settings.node_port_ips.iter().flatten() {
            elements
                .entry(SetId::NodePortIps)
                .or_default()
                .push(wire::element(Key::Address(*ip), &Value::Member));
        }
        for (set, elements) in elements {
            tx = chunked_elements(tx, &wire::declare(set), &elements);
        }
        self.session.commit(tx).await?;
        self.stale = false;
        tracing::debug!(elements = self.ledger.len(), ports = self.ports.len(), "table written");
        Ok(())
    }

    /// Waits until somebody else changes the table.
    pub async fn drifted(&mut self) {
        self.watch.changed().await;
    }

    /// How many rules the table holds.
    #[must_use]
    pub fn rule_count(&self) -> usize {
        let ours: usize =
            self.ports.values().flat_map(|p| p.rendered.chains.values()).map(Vec::<Rule>::len).sum();
        ours + base_rules(&self.settings).len()
    }

    /// Removes the table.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub async fn cleanup() -> Result<(), NftError> {
        let session = Session::open(TABLE)?;
        session.commit(session.begin_remove()).await
    }
}

fn chain(name: &str) -> Result<Chain, NftError> {
    Ok(Chain::new(TABLE, name).map_err(NftError::Netlink)?.family(KernelFamily::Ip))
}
