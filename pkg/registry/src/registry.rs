//! All rows: the built-in ones, and those that CustomResourceDefinitions add at run time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use copepod_api::{GroupVersionResource, ResourceDef};
use copepod_store::{Backend, Cache};
use ipnet::IpNet;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    allocation::service::ServiceAllocation,
    apiservice, builtin,
    convert::ConversionCaller,
    crd,
    row::Row,
    store::{Core, Store},
    subresource::TokenIssuer,
    translated::Translated,
};

/// Between two compactions, as upstream's.
const COMPACTION: Duration = Duration::from_secs(5 * 60);

/// What the registry needs to know.
#[derive(Clone)]
pub struct RegistryConfig {
    /// Ranges of cluster IPs, at most one per family; the first is the default family.
    pub service_cidrs: Vec<IpNet>,
    /// Lowest and highest node port.
    pub node_ports: (u16, u16),
    /// Signs service account tokens; without it `serviceaccounts/token` is refused.
    pub token_issuer: Option<Arc<dyn TokenIssuer>>,
    /// Calls conversion webhooks; without it definitions that have one serve only what is stored in their version.
    pub conversions: Option<Arc<dyn ConversionCaller>>,
    /// How long events are kept.
    pub event_ttl: Duration,
    /// Between two compactions of the store; `None` leaves compaction to others.
    pub compaction: Option<Duration>,
}

impl std::fmt::Debug for RegistryConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryConfig")
            .field("service_cidrs", &self.service_cidrs)
            .field("node_ports", &self.node_ports)
            .field("event_ttl", &self.event_ttl)
            .finish_non_exhaustive()
    }
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            service_cidrs: vec![IpNet::new_assert([10, 96, 0, 0].into(), 12)],
            node_ports: (30000, 32767),
            token_issuer: None,
            conversions: None,
            event_ttl: Duration::from_secs(3600),
            compaction: Some(COMPACTION),
        }
    }
}

/// The rows and their stores.
pub struct Registry {
    rows: RwLock<BTreeMap<GroupVersionResource, Arc<Row>>>,
    changed: watch::Sender<u64>,
    /// Whether the definitions of custom resources have been looked at once.
    custom: watch::Sender<bool>,
    core: Arc<Core>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("rows", &self.rows.read().len()).finish_non_exhaustive()
    }
}

impl Registry {
    /// A registry over `backend`. Its tasks (watch cache, compaction, custom resources, default ServiceCIDR) run until
    /// `shutdown`. Returns at once; [`Self::ready`] waits for the cache.
    #[must_use]
    pub fn open(
        backend: Arc<dyn Backend>,
        config: RegistryConfig,
        shutdown: &CancellationToken,
    ) -> Arc<Self> {
        let backend: Arc<dyn Backend> = Arc::new(Translated(backend));
        let cache = Cache::start(Arc::clone(&backend), shutdown.clone());
        if let Some(period) = config.compaction {
            let compactor =
                copepod_store::run_compactor(backend, Arc::clone(&cache), period, shutdown.clone());
            copepod_supervisor::spawn("compactor", compactor);
        }
        let registry = Arc::new_cyclic(|this: &Weak<Self>| {
            let tokens = config.token_issuer.clone();
            let conversions = config.conversions.clone();
            let core = Arc::new(Core { cache, registry: this.clone(), tokens, conversions });
            let services = Arc::new(ServiceAllocation::new(Arc::downgrade(&core), &config));
            let rows = builtin::rows(&config, &services);
            Self {
                rows: RwLock::new(rows),
                changed: watch::Sender::new(0),
                custom: watch::Sender::new(false),
                core,
            }
        });
        crd::start(&registry, shutdown);
        apiservice::start(&registry, shutdown);
        crate::allocation::service::start(&registry, &config, shutdown);
        registry
    }

    /// Waits until the watch cache has been filled and the custom resources there are have their rows.
    pub async fn ready(&self) {
        self.core.cache.ready().await;
        // The sender lives as long as the registry.
        let _served = self.custom.subscribe().wait_for(|done| *done).await.is_ok();
    }

    /// Whether [`Self::ready`] would return at once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.core.cache.is_ready() && *self.custom.borrow()
    }

    pub(crate) fn custom_done(&self) {
        self.custom.send_if_modified(|done| !std::mem::replace(done, true));
    }

    /// The watch cache, for its revision and cost.
    #[must_use]
    pub fn cache(&self) -> &Arc<Cache> {
        &self.core.cache
    }

    /// The store of a row; `None` when nothing serves it, or it is never stored (reviews).
    #[must_use]
    pub fn store(&self, resource: &GroupVersionResource) -> Option<Store> {
        let row = self.rows.read().get(resource).map(Arc::clone)?;
        let stored = row.def.verbs.0.iter().any(|verb| *verb != copepod_api::Verb::Create);
        stored.then(|| Store { row, core: Arc::clone(&self.core) })
    }

    /// All rows, in the order of group, version and plural.
    #[must_use]
    pub fn rows(&self) -> Vec<Arc<ResourceDef>> {
        self.rows.read().values().map(|row| Arc::clone(&row.def)).collect()
    }

    /// All rows, with what the verbs need of them.
    pub(crate) fn all(&self) -> Vec<Arc<Row>> {
        self.rows.read().values().cloned().collect()
    }

    /// One row; also of resources that are never stored.
    #[must_use]
    pub fn row(&self, resource: &GroupVersionResource) -> Option<Arc<ResourceDef>> {
        self.rows.read().get(resource).map(|row| Arc::clone(&row.def))
    }

    /// A number that changes with every change of a resource's objects; `None` when nothing stores it.
    #[must_use]
    pub fn stamp(&self, resource: &GroupVersionResource) -> Option<i64> {
        let store = self.store(resource)?;
        Some(self.cache().bucket(&store.row.def.key_prefix(None)).last())
    }

    /// Ticks when rows come, go or change.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Replaces the rows of one custom resource (all versions of `group` and `plural`) by `rows`.
    pub(crate) fn set_custom(&self, group: &str, plural: &str, rows: Vec<Row>) {
        let mut all = self.rows.write();
        let had = all.len();
        let mut changed = false;
        all.retain(|gvr, row| {
            let ours = row.def.custom && gvr.group == group && gvr.resource == plural;
            let stays = rows.iter().any(|new| new.def.version == gvr.version);
            changed |= ours && !stays;
            !ours || stays
        });
        for row in rows {
            let gvr = row.def.gvr();
            // A built-in row is never replaced.
            if all.get(&gvr).is_none_or(|old| old.def.custom) {
                all.insert(gvr, Arc::new(row));
                changed = true;
            }
        }
        let ticks = changed || all.len() != had;
        drop(all);
        if ticks {
            self.changed.send_modify(|tick| *tick += 1);
        }
    }
}
