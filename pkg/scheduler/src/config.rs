//! What the scheduler needs to know, and how it is put together.

use std::net::SocketAddr;
use std::path::PathBuf;

use copepod_client::lease::{self, LeaseConfig};
use copepod_client::serving::{self, ServingConfig};
use copepod_client::{Client, ClientConfig, ClientError};
use tokio_util::sync::CancellationToken;

use crate::cycle::Scheduler;

/// Configuration; the fields are upstream's flags of the same meaning.
#[derive(Debug, Clone)]
pub struct Config {
    /// `--kubeconfig`.
    pub kubeconfig: PathBuf,
    /// Where health and metrics are served.
    pub serving: ServingConfig,
    /// `--leader-elect`.
    pub leader_elect: bool,
    /// Identity in the lease and in events; the host's name.
    pub host: String,
    /// Which pods are ours, by `spec.schedulerName`.
    pub scheduler_name: String,
}

impl Config {
    /// Upstream's defaults with a kubeconfig.
    #[must_use]
    pub fn new(kubeconfig: impl Into<PathBuf>, host: impl Into<String>) -> Self {
        Self {
            kubeconfig: kubeconfig.into(),
            serving: ServingConfig::new(SocketAddr::from(([127, 0, 0, 1], 10259))),
            leader_elect: true,
            host: host.into(),
            scheduler_name: "default-scheduler".to_owned(),
        }
    }
}

/// Why the scheduler ended.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// The client or the health server cannot be set up.
    #[error("scheduler set-up")]
    Setup(#[from] ClientError),
    /// Another scheduler has the lease; this one must not go on with what it believes.
    #[error("leader lease lost")]
    LeaseLost,
}

/// Runs the scheduler until `shutdown`.
///
/// # Errors
/// When it cannot be set up, or when it loses its leader lease.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), SchedulerError> {
    let client = ClientConfig::from_kubeconfig(&config.kubeconfig)?;
    let client = Client::new(&client.user_agent("kube-scheduler/v1.37.2 (copepod)"))?;
    let scheduler = Scheduler::new(client.clone(), &config);
    let metrics = scheduler.clone();
    serving::start(config.serving.clone(), &client, move || metrics.metrics(), &shutdown).await?;
    let leading = if config.leader_elect {
        let lease = LeaseConfig::new("kube-scheduler", &config.host);
        match lease::acquire(&client, lease, &shutdown).await {
            Some(token) => token,
            None => return Ok(()),
        }
    } else {
        shutdown.child_token()
    };
    scheduler.run(&leading).await;
    if shutdown.is_cancelled() { Ok(()) } else { Err(SchedulerError::LeaseLost) }
}
