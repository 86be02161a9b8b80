//! What the node knows of its runtime and network, refreshed by one task.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use copepod_cri::{RuntimeService, v1 as cri};
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Between two looks when all is well, and when something is missing.
const SLOW: Duration = Duration::from_secs(5);
const FAST: Duration = Duration::from_millis(250);
/// The runtime counts as lost after this long without an answer.
const LOST: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct Inner {
    runtime_name: String,
    runtime_version: String,
    runtime_problem: Option<String>,
    network_problem: Option<String>,
    host_ips: Vec<IpAddr>,
    handlers: Vec<cri::RuntimeHandler>,
    supplemental_groups_policy: bool,
    last_answer: Option<Instant>,
}

/// Runtime and network readiness.
#[derive(Debug)]
pub struct RuntimeState {
    inner: RwLock<Inner>,
    changed: watch::Sender<()>,
}

impl RuntimeState {
    /// Nothing known yet but the node's addresses.
    #[must_use]
    pub fn new(host_ips: Vec<IpAddr>) -> Self {
        let inner = Inner {
            runtime_name: "containerd".to_owned(),
            runtime_problem: Some("container runtime status check may not have completed yet".to_owned()),
            network_problem: Some("container runtime status check may not have completed yet".to_owned()),
            host_ips,
            ..Inner::default()
        };
        Self { inner: RwLock::new(inner), changed: watch::channel(()).0 }
    }

    /// `containerd`, the scheme of container ids.
    #[must_use]
    pub fn runtime_name(&self) -> String {
        self.inner.read().runtime_name.clone()
    }

    /// `containerd://2.4.2`, as nodeInfo has it.
    #[must_use]
    pub fn runtime_version(&self) -> String {
        let inner = self.inner.read();
        format!("{}://{}", inner.runtime_name, inner.runtime_version)
    }

    /// Why the runtime cannot be used.
    #[must_use]
    pub fn runtime_problem(&self) -> Option<String> {
        self.inner.read().runtime_problem.clone()
    }

    /// Why pods with their own network cannot start.
    #[must_use]
    pub fn network_problem(&self) -> Option<String> {
        self.inner.read().network_problem.clone()
    }

    /// The node's addresses.
    #[must_use]
    pub fn host_ips(&self) -> Vec<IpAddr> {
        self.inner.read().host_ips.clone()
    }

    /// What a runtime handler can; nothing when it is unknown.
    #[must_use]
    pub fn handler(&self, name: &str) -> cri::RuntimeHandlerFeatures {
        let inner = self.inner.read();
        inner.handlers.iter().find(|h| h.name == name).and_then(|h| h.features).unwrap_or_default()
    }

    /// All handlers of the runtime.
    #[must_use]
    pub fn handlers(&self) -> Vec<cri::RuntimeHandler> {
        self.inner.read().handlers.clone()
    }

    /// Whether the runtime knows `supplementalGroupsPolicy`.
    #[must_use]
    pub fn supplemental_groups_policy(&self) -> bool {
        self.inner.read().supplemental_groups_policy
    }

    /// Fails when the runtime has not answered for long.
    ///
    /// # Errors
    /// The text for healthz.
    pub fn loop_problem(&self) -> Result<(), String> {
        let inner = self.inner.read();
        match inner.last_answer {
            Some(at) if at.elapsed() > LOST => {
                Err(format!("container runtime is down for {}s", at.elapsed().as_secs()))
            }
            _ => Ok(()),
        }
    }

    /// Signals every change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Something that the node's status shows has changed.
    pub fn notify(&self) {
        self.changed.send_replace(());
    }

    /// Asks until shutdown.
    pub async fn run(self: Arc<Self>, runtime: Arc<dyn RuntimeService>, shutdown: CancellationToken) {
        loop {
            let well = self.refresh(runtime.as_ref()).await;
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(if well { SLOW } else { FAST }) => {}
            }
        }
    }

    async fn refresh(&self, runtime: &dyn RuntimeService) -> bool {
        let version =
            if self.inner.read().runtime_version.is_empty() { runtime.version().await.ok() } else { None };
        let answer = runtime.status(false).await;
        let mut inner = self.inner.write();
        let before = (inner.runtime_problem.clone(), inner.network_problem.clone());
        if let Some(version) = version {
            inner.runtime_name = version.runtime_name;
            inner.runtime_version = version.runtime_version.trim_start_matches('v').to_owned();
        }
        match answer {
            Ok(answer) => {
                inner.last_answer = Some(Instant::now());
                inner.supplemental_groups_policy =
                    answer.features.as_ref().is_some_and(|f| f.supplemental_groups_policy);
                inner.handlers = answer.runtime_handlers;
                inner.handlers.sort_by(|a, b| a.name.cmp(&b.name));
                let conditions = answer.status.map(|s| s.conditions).unwrap_or_default();
                let problem = |kind: &str, label: &str| match conditions.iter().find(|c| c.r#type == kind) {
                    Some(c) if c.status => None,
                    Some(c) => {
                        Some(format!("{label}: {kind}=false reason:{} message:{}", c.reason, c.message))
                    }
                    None => Some(format!("{label}: {kind} is not reported")),
                };
                inner.runtime_problem = problem("RuntimeReady", "container runtime not ready");
                inner.network_problem = problem("NetworkReady", "container runtime network not ready");
            }
            Err(error) => {
                let text = format!("container runtime is down: {error}");
                inner.runtime_problem = Some(text);
            }
        }
        let after = (inner.runtime_problem.clone(), inner.network_problem.clone());
        let well = after.0.is_none() && after.1.is_none();
        drop(inner);
        if before != after {
            tracing::info!(
                runtime = after.0.as_deref().unwrap_or("ready"),
                network = after.1.as_deref().unwrap_or("ready"),
                "runtime status"
            );
            self.changed.send_replace(());
        }
        well
    }
}
