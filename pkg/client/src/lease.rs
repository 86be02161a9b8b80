//! A leader lease: one of several candidates acts, the others wait.
//!
//! An identity is the host's name and something unique, as upstream's are. On a single node a lease of the same host
//! can only have been left by the process before this one, so it is taken at once instead of waited for.

use std::time::Duration;

use copepod_sys::clock;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::resources::LEASES;
use crate::{Client, OptionalExt, Result};

/// Pause while the server is not there, or not ready, at start.
const NOT_YET: Duration = Duration::from_millis(250);

/// Which lease to take, and in whose name. Durations are upstream's by default: 15 s and 2 s.
#[derive(Debug, Clone)]
pub struct LeaseConfig {
    /// Namespace, usually `kube-system`.
    pub namespace: String,
    /// Name, such as `kube-scheduler`.
    pub name: String,
    /// Identity of this candidate.
    pub identity: String,
    /// Its host; leases held from there were left by an earlier run.
    pub host: String,
    /// How long a lease is valid after its last renewal.
    pub duration: Duration,
    /// Pause between attempts.
    pub retry_period: Duration,
}

impl LeaseConfig {
    /// A lease in `kube-system` with upstream's durations.
    #[must_use]
    pub fn new(name: &str, host: &str) -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            name: name.to_owned(),
            identity: format!("{host}_{}", uuid::Uuid::new_v4()),
            host: host.to_owned(),
            duration: Duration::from_secs(15),
            retry_period: Duration::from_secs(2),
        }
    }
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Lease {
    spec: LeaseSpec,
}

#[derive(Debug, Clone, Serialize, Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    acquire_time: Option<Timestamp>,
    renew_time: Option<Timestamp>,
    lease_transitions: Option<i64>,
}

/// What a candidate does about the lease it sees.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// It is ours: renew it.
    Renew,
    /// It is nobody's or has run out: take it.
    Take,
    /// Another holds it.
    Wait,
}

fn decide(spec: &LeaseSpec, identity: &str, host: &str, now: Timestamp) -> Decision {
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    if holder == identity {
        return Decision::Renew;
    }
    if holder.rsplit_once('_').map_or(holder, |(of, _)| of) == host {
        return Decision::Take;
    }
    let duration = SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or(0));
    let valid = spec.renew_time.is_some_and(|at| at + duration > now);
    if holder.is_empty() || !valid { Decision::Take } else { Decision::Wait }
}

/// Waits until the lease is ours, then renews it in the background. The returned token is cancelled when the lease is
/// lost; the caller then has to stop. When `shutdown` is cancelled the lease is given back.
///
/// # Errors
/// None but cancellation: failed attempts are tried again. `None` when `shutdown` came first.
pub async fn acquire(
    client: &Client,
    config: LeaseConfig,
    shutdown: &CancellationToken,
) -> Option<CancellationToken> {
    // A server that is not there yet says the same many times; each reason is told once.
    let mut told = String::new();
    loop {
        let pause = match attempt(client, &config).await {
            Ok(true) => break,
            Ok(false) => config.retry_period,
            Err(error) => {
                let error = crate::chain(&error);
                if error != told {
                    tracing::info!(lease = config.name, error, "cannot take lease");
                    told = error;
                }
                NOT_YET
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return None,
            () = tokio::time::sleep(pause) => {}
        }
    }
    let lost = shutdown.child_token();
    let (client, token, shutdown) = (client.clone(), lost.clone(), shutdown.clone());
    copepod_supervisor::spawn("lease", async move { renew(&client, &config, &token, &shutdown).await });
    Some(lost)
}

async fn renew(
    client: &Client,
    config: &LeaseConfig,
    lost: &CancellationToken,
    shutdown: &CancellationToken,
) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => {
                if let Err(error) = release(client, config).await {
                    tracing::debug!(lease = config.name, error = crate::chain(&error), "cannot give lease back");
                }
                return;
            }
            // Less often than upstream's retry period: every renewal is a write to disk.
            () = tokio::time::sleep(config.duration / 3) => {}
        }
        match attempt(client, config).await {
            Ok(true) => {}
            Ok(false) => return lost.cancel(),
            // A server that is away, or not ready to say yes yet, lets nobody else have the lease either; the next
            // attempt that is answered decides.
            Err(error) => {
                tracing::debug!(lease = config.name, error = crate::chain(&error), "cannot renew lease");
            }
        }
    }
}

/// Leaves the lease to the next candidate.
async fn release(client: &Client, config: &LeaseConfig) -> Result<()> {
    let target = LEASES.object(&config.namespace, &config.name);
    let mut object: Value = client.get(&target).await?;
    if object.pointer("/spec/holderIdentity").and_then(Value::as_str) != Some(&config.identity) {
        return Ok(());
    }
    crate::apply_merge(&mut object, &json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}));
    client.update::<Value>(&target, &object).await.map(drop)
}

/// One look at the lease; whether it is ours afterwards.
async fn attempt(client: &Client, config: &LeaseConfig) -> Result<bool> {
    let target = LEASES.object(&config.namespace, &config.name);
    let now = clock::now();
    let Some(lease) = client.get::<Value>(&target).await.optional()? else {
        let body = json!({
            "apiVersion": LEASES.api_version(), "kind": LEASES.kind,
            "metadata": {"name": config.name, "namespace": config.namespace},
            "spec": spec(config, &LeaseSpec::default(), now, 0),
        });
        let made = client.create::<Value>(&LEASES.collection(&config.namespace), &body).await;
        return match made {
            Ok(_) => Ok(true),
            Err(error) if error.is_already_exists() => Ok(false),
            Err(error) => Err(error),
        };
    };
    let bad = |source| crate::ClientError::Body { what: "a lease".to_owned(), source };
    let mut object = lease;
    let lease: Lease = serde_json::from_value(object.clone()).map_err(bad)?;
    let transitions = lease.spec.lease_transitions.unwrap_or(0);
    let new = match decide(&lease.spec, &config.identity, &config.host, now) {
        Decision::Wait => return Ok(false),
        Decision::Renew => spec(config, &lease.spec, now, transitions),
        Decision::Take => spec(config, &LeaseSpec::default(), now, transitions + 1),
    };
    // An update, since upstream's roles do not let components patch leases.
    crate::apply_merge(&mut object, &json!({"spec": new}));
    match client.update::<Value>(&target, &object).await {
        Ok(_) => Ok(true),
        Err(error) if error.conflict() => Ok(false),
        Err(error) => Err(error),
    }
}

fn spec(config: &LeaseConfig, old: &LeaseSpec, now: Timestamp, transitions: i64) -> Value {
    json!({
        "holderIdentity": config.identity,
        "leaseDurationSeconds": config.duration.as_secs(),
        "acquireTime": micro(old.acquire_time.unwrap_or(now)),
        "renewTime": micro(now),
        "leaseTransitions": transitions,
    })
}

/// A time as `MicroTime` travels.
#[must_use]
pub fn micro(at: Timestamp) -> String {
    format!("{at:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_lease_is_renewed_a_foreign_one_is_waited_for_until_it_runs_out() {
        let now: Timestamp = "2026-01-01T00:00:30Z".parse().unwrap();
        let held = |holder: &str, at: &str| LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(at.parse().unwrap()),
            ..LeaseSpec::default()
        };
        let decide = |spec: &LeaseSpec| decide(spec, "here_1", "here", now);
        assert_eq!(decide(&held("here_1", "2020-01-01T00:00:00Z")), Decision::Renew);
        assert_eq!(decide(&held("here_0", "2026-01-01T00:00:29Z")), Decision::Take, "left by an earlier run");
        assert_eq!(decide(&held("there_1", "2026-01-01T00:00:20Z")), Decision::Wait);
        assert_eq!(decide(&held("there_1", "2026-01-01T00:00:10Z")), Decision::Take);
        assert_eq!(decide(&held("", "2026-01-01T00:00:29Z")), Decision::Take);
        assert_eq!(micro(now), "2026-01-01T00:00:30.000000Z");
    }
}
