//! The loop: wait, take, calculate, commit.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use copepod_client::{Client, ClientConfig, ClientError, Recorder};
use copepod_dataplane::{DataplaneError, Driver, has_default_route, route_service_range};
use copepod_netcalc::{Calculator, Change, Family, NodeFacts, PortRules, Route, ServiceName};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::feed::{Event, Feed, absorb};
use crate::health::Health;
use crate::learn::learn;
use crate::metrics::Metrics;
use crate::node_health::NodeHealth;
use crate::serve;

/// The first pause after a failed commit; it doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// After a foreign change, wait this long for the rest of it before repairing.
const SETTLE: Duration = Duration::from_millis(200);

/// The proxy cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The API cannot be reached with this configuration.
    #[error("set up the API client")]
    Client(#[from] ClientError),
    /// A port is taken.
    #[error("listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The kernel lacks something.
    #[error("open the dataplane")]
    Dataplane(#[from] DataplaneError),
}

/// Runs the proxy until `shutdown`; the rules stay in the kernel, so that Services go on while it restarts.
///
/// # Errors
/// When it cannot start; once running, failures are logged, counted and tried again.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), ProxyError> {
    let client_config = ClientConfig::from_kubeconfig(&config.kubeconfig)?.user_agent("kube-proxy");
    let client = Client::new(&client_config)?;
    let config = learn(config, &client, &shutdown).await;
    if shutdown.is_cancelled() {
        return Ok(());
    }
    let health = Arc::new(Health::new(config.health_timeout));
    let metrics = Arc::new(Metrics::default());
    let settings = config.settings();
    if !has_default_route() {
        for range in &settings.service_ranges {
            route_service_range(*range).await.map_err(DataplaneError::from)?;
        }
    }
    let driver = Driver::open(config.mode, settings).await?;
    let servers = serve::start(&config, &health, &metrics).await?;
    let recorder = Recorder::new(&client, "kube-proxy", &config.node_name);
    let mut feed = Feed::start(&client, &config.node_name, &shutdown);
    let facts =
        NodeFacts { name: config.node_name.clone(), zone: String::new(), addresses: config.node_ips.clone() };
    let mut proxy = Proxy {
        calc: Calculator::new(facts.clone(), &[Family::V4]),
        facts,
        driver,
        node_health: NodeHealth::new(Arc::clone(&health), recorder),
        health,
        metrics,
        no_local: BTreeMap::new(),
        pause: None,
    };
    tracing::info!(
        mode = config.mode.name(),
        node = config.node_name,
        "proxy waits for Services and EndpointSlices"
    );
    tokio::select! {
        () = feed.synced() => proxy.follow(&mut feed, &shutdown).await,
        () = shutdown.cancelled() => {}
    }
    servers.iter().for_each(copepod_supervisor::Task::abort);
    Ok(())
}

struct Proxy {
    calc: Calculator,
    facts: NodeFacts,
    driver: Driver,
    node_health: NodeHealth,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    /// Ports whose Local policy finds no endpoint here (internal, external), of the Services that have any.
    no_local: BTreeMap<ServiceName, (u64, u64)>,
    /// How long to wait before the next attempt, after a failure.
    pause: Option<Duration>,
}

impl Proxy {
    async fn follow(&mut self, feed: &mut Feed, shutdown: &CancellationToken) {
        self.take_queued(feed);
        self.sync().await;
        loop {
            let retry = self.pause.unwrap_or(Duration::MAX);
            tokio::select! {
                () = shutdown.cancelled() => return,
                event = feed.events.recv() => {
                    let Some(event) = event else { return };
                    self.take(event);
                    self.take_queued(feed);
                    if self.calc.is_dirty() {
                        self.sync().await;
                    }
                }
                () = tokio::time::sleep(retry), if self.pause.is_some() => self.sync().await,
                () = self.driver.drifted() => self.repair().await,
            }
        }
    }

    fn take_queued(&mut self, feed: &mut Feed) {
        while let Ok(event) = feed.events.try_recv() {
            self.take(event);
        }
    }

    fn take(&mut self, event: Event) {
        match &event {
            Event::Node(view) => self.health.set_eligible(view.as_ref().is_none_or(|v| v.is_eligible())),
            other => self.metrics.queued(matches!(other, Event::Service(..))),
        }
        absorb(&mut self.calc, event, &self.facts);
        if self.calc.is_dirty() {
            self.health.queued();
        }
    }

    async fn sync(&mut self) {
        let changes = self.calc.take_changes();
        let start = Instant::now();
        let outcome = self.driver.apply(&changes).await;
        self.node_health.apply(&changes).await;
        self.count_no_local(&changes);
        self.conclude(outcome, start, changes.len());
    }

    fn count_no_local(&mut self, changes: &[Change]) {
        for change in changes {
            let dropped = |route: fn(&PortRules) -> Route| {
                change.ports.iter().map(|p| u64::from(route(p) == Route::Drop)).sum::<u64>()
            };
            match (dropped(|p| p.internal), dropped(|p| p.external)) {
                (0, 0) => drop(self.no_local.remove(&change.service)),
                counts => drop(self.no_local.insert(change.service.clone(), counts)),
            }
        }
        let total = self.no_local.values().fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
        self.metrics.set_no_local(total.0, total.1);
    }

    async fn repair(&mut self) {
        tokio::time::sleep(SETTLE).await;
        let start = Instant::now();
        let outcome = self.driver.resync().await;
        self.metrics.repaired();
        tracing::info!("rules were changed by somebody else and are written anew");
        self.conclude(outcome, start, 0);
    }

    fn conclude(&mut self, outcome: Result<(), DataplaneError>, start: Instant, services: usize) {
        match outcome {
            Ok(()) => {
                self.pause = None;
                self.health.synced();
                self.metrics.synced(start.elapsed());
                tracing::debug!(services, took = ?start.elapsed(), "rules are in step");
            }
            Err(error) => {
                self.health.queued();
                self.metrics.failed();
                let pause = self.pause.map_or(MIN_PAUSE, |p| (p * 2).min(MAX_PAUSE));
                self.pause = Some(pause);
                tracing::error!(
                    error = copepod_client::chain(&error),
                    ?pause,
                    "cannot program the rules, will retry"
                );
            }
        }
    }
}
