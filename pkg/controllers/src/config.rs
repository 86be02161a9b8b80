//! What the controller-manager needs to know, and how it is put together.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use copepod_client::lease::{self, LeaseConfig};
use copepod_client::serving::{self, ServingConfig};
use copepod_client::{Client, ClientConfig, ClientError, Recorder};
use copepod_telemetry::Exposition;
use tokio_util::sync::CancellationToken;

use crate::caches::Caches;
use crate::context::Context;
use crate::credentials::Credentials;

/// Configuration; the fields are upstream's flags of the same meaning.
#[derive(Debug, Clone)]
pub struct Config {
    /// `--kubeconfig`.
    pub kubeconfig: PathBuf,
    /// Where health and metrics are served.
    pub serving: ServingConfig,
    /// `--leader-elect`.
    pub leader_elect: bool,
    /// `--use-service-account-credentials`: each controller acts as its own ServiceAccount.
    pub use_service_account_credentials: bool,
    /// `--root-ca-file`, published in every namespace.
    pub root_ca_file: Option<PathBuf>,
    /// `--cluster-signing-cert-file` and `--cluster-signing-key-file`.
    pub cluster_signing: Option<(PathBuf, PathBuf)>,
    /// `--service-account-private-key-file`, for token Secrets.
    pub service_account_key: Option<PathBuf>,
    /// `--controllers`: names, `*`, and `-name`.
    pub controllers: Vec<String>,
    /// `--node-monitor-grace-period`.
    pub node_monitor_grace_period: Duration,
    /// `--terminated-pod-gc-threshold`.
    pub terminated_pod_gc_threshold: usize,
    /// Identity in the lease; the host's name.
    pub host: String,
}

impl Config {
    /// Upstream's defaults with a kubeconfig.
    #[must_use]
    pub fn new(kubeconfig: impl Into<PathBuf>, host: impl Into<String>) -> Self {
        Self {
            kubeconfig: kubeconfig.into(),
            serving: ServingConfig::new(SocketAddr::from(([127, 0, 0, 1], 10257))),
            leader_elect: true,
            use_service_account_credentials: false,
            root_ca_file: None,
            cluster_signing: None,
            service_account_key: None,
            controllers: vec!["*".to_owned()],
            node_monitor_grace_period: Duration::from_secs(50),
            terminated_pod_gc_threshold: 12500,
            host: host.into(),
        }
    }

    /// Whether a controller is switched on.
    #[must_use]
    pub fn enabled(&self, name: &str) -> bool {
        let off = self.controllers.iter().any(|c| c.strip_prefix('-') == Some(name));
        let on = self.controllers.iter().any(|c| c == name || c == "*");
        on && !off
    }
}

/// Why the controller-manager ended.
#[derive(Debug, thiserror::Error)]
pub enum ControllersError {
    /// The client or the health server cannot be set up.
    #[error("controller-manager set-up")]
    Setup(#[from] ClientError),
    /// Another one has the lease; this one must not go on with what it believes.
    #[error("leader lease lost")]
    LeaseLost,
}

/// Upstream's name of a controller, the ServiceAccount it acts as, and how it starts.
type Row = (&'static str, &'static str, fn(&Context));

/// All controllers. Names are those of `--controllers` and ServiceAccounts those of the bootstrap roles.
pub const CONTROLLERS: &[Row] = &[
    ("namespace-controller", "namespace-controller", crate::namespace::start),
    ("serviceaccount-controller", "service-account-controller", crate::service_account::start),
    ("root-ca-certificate-publisher-controller", "root-ca-cert-publisher", crate::root_ca::start),
    ("garbage-collector-controller", "generic-garbage-collector", crate::garbage_collector::start),
    ("replicaset-controller", "replicaset-controller", crate::replica_set::start),
    (
        "replicationcontroller-controller",
        "replication-controller",
        crate::replica_set::start_replication_controllers,
    ),
    ("deployment-controller", "deployment-controller", crate::deployment::start),
    ("endpointslice-controller", "endpointslice-controller", crate::endpoint_slice::start),
    ("endpoints-controller", "endpoint-controller", crate::endpoints::start),
    ("endpointslice-mirroring-controller", "endpointslicemirroring-controller", crate::mirroring::start),
    ("service-lb-controller", "service-controller", crate::service_lb::start),
    ("daemonset-controller", "daemon-set-controller", crate::daemon_set::start),
    ("job-controller", "job-controller", crate::job::start),
    ("serviceaccount-token-controller", "tokens-controller", crate::tokens::start),
    (
        "clusterrole-aggregation-controller",
        "clusterrole-aggregation-controller",
        crate::cluster_role_aggregation::start,
    ),
    (
        "persistentvolumeclaim-protection-controller",
        "pvc-protection-controller",
        crate::volume_protection::start_claims,
    ),
    (
        "persistentvolume-protection-controller",
        "pv-protection-controller",
        crate::volume_protection::start_volumes,
    ),
    ("certificatesigningrequest-signing-controller", "certificate-controller", crate::certificates::start),
    ("cronjob-controller", "cronjob-controller", crate::cron_job::start),
    ("statefulset-controller", "statefulset-controller", crate::stateful_set::start),
    ("disruption-controller", "disruption-controller", crate::disruption::start),
    ("pod-garbage-collector-controller", "pod-garbage-collector", crate::pod_gc::start),
    ("ttl-after-finished-controller", "ttl-after-finished-controller", crate::ttl_after_finished::start),
    ("node-lifecycle-controller", "node-controller", crate::node_lifecycle::start),
    ("ttl-controller", "ttl-controller", crate::node_ttl::start),
    (
        "validatingadmissionpolicy-status-controller",
        "validatingadmissionpolicy-status-controller",
        crate::admission_policy::start,
    ),
    ("resourcequota-controller", "resourcequota-controller", crate::resource_quota::start),
    ("persistentvolume-binder-controller", "persistent-volume-binder", crate::persistent_volume::start),
    (
        "storage-version-migrator-controller",
        "storage-version-migrator-controller",
        crate::storage_version::start,
    ),
    ("service-cidr-controller", "service-cidrs-controller", crate::service_cidr::start),
    (
        "podcertificaterequest-cleaner-controller",
        "podcertificaterequestcleaner",
        crate::pod_certificate_cleaner::start,
    ),
    ("horizontal-pod-autoscaler-controller", "horizontal-pod-autoscaler", crate::autoscaling::start),
    ("ephemeral-volume-controller", "ephemeral-volume-controller", crate::ephemeral_volume::start),
    (
        "volumeattributesclass-protection-controller",
        "volumeattributesclass-protection-controller",
        crate::volume_protection::start_attributes,
    ),
];

/// Runs the controllers until `shutdown`.
///
/// # Errors
/// When they cannot be set up, or when the leader lease is lost.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), ControllersError> {
    let parsed = ClientConfig::from_kubeconfig(&config.kubeconfig)?
        .user_agent("kube-controller-manager/v1.37.2 (copepod)");
    let client = Client::new(&parsed)?;
    serving::start(config.serving.clone(), &client, metrics, &shutdown).await?;
    let leading = if config.leader_elect {
        let lease = LeaseConfig::new("kube-controller-manager", &config.host);
        match lease::acquire(&client, lease, &shutdown).await {
            Some(token) => token,
            None => return Ok(()),
        }
    } else {
        shutdown.child_token()
    };
    let credentials =
        if config.use_service_account_credentials { Some(Credentials::new(&client, &parsed)?) } else { None };
    start(&Arc::new(config), &client, credentials.as_ref(), &leading).await;
    leading.cancelled().await;
    if shutdown.is_cancelled() { Ok(()) } else { Err(ControllersError::LeaseLost) }
}

fn metrics() -> String {
    let mut text = Exposition::default();
    copepod_client::metrics::write(&mut text);
    text.into_string()
}

async fn start(
    config: &Arc<Config>,
    reader: &Client,
    credentials: Option<&Credentials>,
    stop: &CancellationToken,
) {
    let caches = Arc::new(Caches::new());
    let enabled: Vec<_> = CONTROLLERS.iter().filter(|(name, ..)| config.enabled(name)).collect();
    let clients = enabled.iter().map(async |(_, account, _)| match credentials {
        Some(credentials) => credentials.client_for(account, stop).await,
        None => reader.clone(),
    });
    let clients = futures::future::join_all(clients).await;
    for ((name, _, start), client) in enabled.into_iter().zip(clients) {
        let context = Context {
            recorder: Recorder::new(&client, event_source(name), ""),
            client,
            reader: reader.clone(),
            caches: Arc::clone(&caches),
            config: Arc::clone(config),
            shutdown: stop.clone(),
            name,
        };
        start(&context);
    }
    caches.start(reader, stop);
}

/// The component events name: upstream's differ from the controllers' names here and there.
fn event_source(name: &'static str) -> &'static str {
    match name {
        "replicationcontroller-controller" => "replication-controller",
        "daemonset-controller" => "daemonset-controller",
        "endpoints-controller" => "endpoint-controller",
        "endpointslice-controller" => "endpoint-slice-controller",
        "node-lifecycle-controller" => "node-controller",
        "disruption-controller" => "controllermanager",
        "persistentvolume-binder-controller" => "persistentvolume-controller",
        "ephemeral-volume-controller" => "ephemeral_volume",
        "horizontal-pod-autoscaler-controller" => "horizontal-pod-autoscaler",
        other => other,
    }
}
