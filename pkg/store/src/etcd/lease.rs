//! Leases for keys with a time to live. One lease serves many keys, as upstream's: a lease a key would cost etcd
//! more than the keys do.

use std::{sync::Arc, time::Duration};

use etcd_client::LeaseClient;
use tokio::{sync::Mutex, time::Instant};

use super::limited;
use crate::error::StoreError;

/// A lease is given to new keys for this long, so that a key may live that much longer than asked.
const REUSE: Duration = Duration::from_secs(60);
/// Most keys of one lease.
const KEYS: usize = 1000;

#[derive(Debug, Clone, Copy)]
struct Current {
    id: i64,
    ttl: Duration,
    until: Instant,
    keys: usize,
}

/// The lease in use.
#[derive(Clone)]
pub(super) struct Leases {
    client: LeaseClient,
    current: Arc<Mutex<Option<Current>>>,
}

impl Leases {
    pub(super) fn new(client: LeaseClient) -> Self {
        Self { client, current: Arc::default() }
    }

    /// A lease that lasts at least `ttl`.
    pub(super) async fn lease(&self, ttl: Duration) -> Result<i64, StoreError> {
        let mut current = self.current.lock().await;
        let now = Instant::now();
        if let Some(lease) = current.as_mut().filter(|c| c.ttl == ttl && now < c.until && c.keys < KEYS) {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let reuse = REUSE.min(ttl / 20);
        let seconds = i64::try_from((ttl + reuse).as_secs()).unwrap_or(i64::MAX);
        let mut client = self.client.clone();
        let granted = limited(client.grant(seconds, None)).await?;
        *current = Some(Current { id: granted.id(), ttl, until: now + reuse, keys: 1 });
        Ok(granted.id())
    }
}
