//! The etcd backend.

use std::time::Duration;

use bytes::Bytes;
use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, GetOptions, Identity, KvClient, PutOptions,
    TlsOptions, Txn, TxnOp, TxnOpResponse, WatchOptions,
};
use futures::{FutureExt as _, future::BoxFuture};

use crate::{
    backend::{Backend, BatchStream, Cas, KeyValue, Page, RangeRequest, Revision},
    error::StoreError,
};

mod lease;
mod watch;

use lease::Leases;

/// Answers of many objects are large; the server's own limit is 2 GiB.
const MESSAGE_LIMIT: usize = 512 << 20;
/// How long one request may take, as upstream's.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses before a read is tried again.
const RETRIES: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
];

/// Client identity and trust, as PEM.
#[derive(Clone, Default)]
pub struct EtcdTls {
    /// The authority that signed etcd's server certificate.
    pub ca: Vec<u8>,
    /// The client certificate.
    pub cert: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
}

/// The key is not shown.
impl std::fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdTls").finish_non_exhaustive()
    }
}

/// Where etcd is and how to reach it.
#[derive(Debug, Clone, Default)]
pub struct EtcdConfig {
    /// URLs such as `https://127.0.0.1:2379`; requests are spread over all of them.
    pub endpoints: Vec<String>,
    /// Client TLS; `None` for plain HTTP.
    pub tls: Option<EtcdTls>,
}

/// etcd over gRPC. Connections are made when needed and again after they break.
#[derive(Clone)]
pub struct EtcdBackend {
    client: Client,
    kv: KvClient,
    leases: Leases,
}

impl std::fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdBackend").finish_non_exhaustive()
    }
}

impl EtcdBackend {
    /// A backend for this configuration. etcd need not be up yet.
    ///
    /// # Errors
    /// No or malformed endpoints, unreadable certificates.
    pub async fn connect(config: &EtcdConfig) -> Result<Self, StoreError> {
        let mut options = ConnectOptions::new()
            .with_require_leader(true)
            .with_connect_timeout(Duration::from_secs(5))
            .with_keep_alive(Duration::from_secs(30), Duration::from_secs(10))
            .with_keep_alive_while_idle(false);
        if let Some(tls) = &config.tls {
            options = options.with_tls(
                TlsOptions::new()
                    .ca_certificate(Certificate::from_pem(&tls.ca))
                    .identity(Identity::from_pem(&tls.cert, &tls.key)),
            );
        }
        let client = Client::connect(&config.endpoints, Some(options)).await.map_err(|e| failure(&e))?;
        let kv = client.kv_client().max_decoding_message_size(MESSAGE_LIMIT);
        let leases = Leases::new(client.lease_client());
        Ok(Self { client, kv, leases })
    }

    async fn read(&self, key: &str, options: GetOptions) -> Result<etcd_client::GetResponse, StoreError> {
        let mut retries = RETRIES.into_iter();
        loop {
            let mut kv = self.kv.clone();
            match limited(kv.get(key, Some(options.clone()))).await {
                // Reads may be repeated; a write might have been done.
                Err(StoreError::Backend(error)) => match retries.next() {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => return Err(StoreError::Backend(error)),
                },
                other => return other,
            }
        }
    }

    async fn conditional(&self, key: &str, expected: Revision, then: TxnOp) -> Result<Cas, StoreError> {
        let txn = Txn::new()
            .when([Compare::mod_revision(key, CompareOp::Equal, expected)])
            .and_then([then])
            .or_else([TxnOp::get(key, None)]);
        let mut kv = self.kv.clone();
        let response = limited(kv.txn(txn)).await?;
        let revision = response.header().map_or(0, |header| header.revision());
        if response.succeeded() {
            return Ok(Cas::Done(revision));
        }
        let current = response.op_responses().into_iter().find_map(|op| match op {
            TxnOpResponse::Get(mut get) => get.take_kvs().into_iter().next(),
            _ => None,
        });
        Ok(Cas::Conflict(current.map(key_value).transpose()?))
    }
}

impl Backend for EtcdBackend {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision), StoreError>> {
        async move {
            let mut response = self.read(key, GetOptions::new()).await?;
            let revision = response.header().map_or(0, |header| header.revision());
            let first = response.take_kvs().into_iter().next();
            Ok((first.map(key_value).transpose()?, revision))
        }
        .boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Page, StoreError>> {
        async move {
            let mut options = GetOptions::new()
                .with_range(request.end)
                .with_limit(i64::try_from(request.limit).unwrap_or(i64::MAX));
            if request.revision > 0 {
                options = options.with_revision(request.revision);
            }
            let read = self.read(&request.start, options).await;
            let mut response = read.map_err(|error| with_revision(error, request.revision))?;
            Ok(Page {
                more: response.more(),
                count: usize::try_from(response.count()).unwrap_or(0),
                revision: response.header().map_or(0, |header| header.revision()),
                items: response.take_kvs().into_iter().map(key_value).collect::<Result<_, _>>()?,
            })
        }
        .boxed()
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Cas, StoreError>> {
        async move {
            let options = match ttl {
                Some(ttl) => Some(PutOptions::new().with_lease(self.leases.lease(ttl).await?)),
                None => None,
            };
            self.conditional(key, expected, TxnOp::put(key, value.to_vec(), options)).await
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a str, expected: Revision) -> BoxFuture<'a, Result<Cas, StoreError>> {
        async move {
            if expected == 0 {
                return Ok(Cas::Conflict(self.get(key).await?.0));
            }
            self.conditional(key, expected, TxnOp::delete(key, None)).await
        }
        .boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        from: Revision,
    ) -> BoxFuture<'a, Result<BatchStream, StoreError>> {
        async move {
            let options = WatchOptions::new().with_prefix().with_start_revision(from).with_progress_notify();
            let mut client = self.client.watch_client().max_decoding_message_size(MESSAGE_LIMIT);
            let opened = limited(client.watch(prefix, Some(options))).await?;
            Ok(watch::batches(opened, from))
        }
        .boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let mut kv = self.kv.clone();
            let done = limited(kv.compact(revision, None)).await;
            done.map(|_| ()).map_err(|error| with_revision(error, revision))
        }
        .boxed()
    }
}

/// Awaits a request for at most [`TIMEOUT`].
async fn limited<T>(request: impl Future<Output = Result<T, etcd_client::Error>>) -> Result<T, StoreError> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(result) => result.map_err(|error| failure(&error)),
        Err(_) => Err(StoreError::Backend("etcdserver: request timed out".to_owned())),
    }
}

fn with_revision(error: StoreError, revision: Revision) -> StoreError {
    match error {
        StoreError::Compacted(_) => StoreError::Compacted(revision),
        StoreError::TooLarge(..) => StoreError::TooLarge(revision, 0),
        other => other,
    }
}

fn failure(error: &etcd_client::Error) -> StoreError {
    let text = match error {
        etcd_client::Error::GRpcStatus(status) => status.message().to_owned(),
        other => other.to_string(),
    };
    // etcd's own texts are its error codes: several share one gRPC code.
    if text.contains("required revision has been compacted") {
        StoreError::Compacted(0)
    } else if text.contains("required revision is a future revision") {
        StoreError::TooLarge(0, 0)
    } else if text.contains("request is too large") {
        StoreError::RequestTooLarge
    } else {
        StoreError::Backend(text)
    }
}

fn key_value(kv: etcd_client::KeyValue) -> Result<KeyValue, StoreError> {
    let revision = kv.mod_revision();
    let (key, value) = kv.into_key_value();
    let key = String::from_utf8(key).map_err(|_| StoreError::Backend("a key is not text".to_owned()))?;
    Ok(KeyValue { key: key.into(), value: Bytes::from(value), revision })
}
