//! Wiring: configuration to a running server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use copepod_api::GroupVersionResource;
use copepod_pki::jwt::{self, SigningKey};
use copepod_registry::{
    ConversionCaller, ListOptions, Registry, RegistryConfig, RequestContext, TokenIssuer, WatchKind,
};
use copepod_store::{Backend, EtcdBackend, EtcdConfig, EtcdTls};
use parking_lot::RwLock;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::admission;
use crate::aggregator::Aggregator;
use crate::authn::Authenticator;
use crate::authn::request_header::RequestHeader;
use crate::authn::service_account::TokenAuthority;
use crate::authn::static_token::StaticTokens;
use crate::authz::Authorizer;
use crate::authz::index::RbacIndex;
use crate::authz::node::NodeAuthorizer;
use crate::config::{Config, go_duration};
use crate::discovery::Discovery;
use crate::error::ServeError;
use crate::health::{Health, Stage};
use crate::kubelet::{KubeletFiles, Kubelets};
use crate::metrics::Metrics;
use crate::openapi::OpenApi;
use crate::outbound::{Conversions, Outbound};
use crate::reader::Reader;
use crate::serve::{self, Trust, tls};
use crate::server::Server;

mod reload;

/// How long readiness fails before connections are drained, so that clients can turn away.
const GOODBYE: Duration = Duration::from_millis(200);

/// Serves the API until `shutdown`.
///
/// # Errors
/// Files that cannot be used, an address that cannot be listened on, an etcd configuration that cannot work. An etcd
/// that is not up yet is waited for.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), ServeError> {
    config.check()?;
    let trust = load_trust(&config)?;
    let address = SocketAddr::new(config.bind_address, config.secure_port);
    let listener =
        TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
    let port = listener.local_addr().map_err(|source| ServeError::Listen { address, source })?.port();
    let serving = tls::Serving::load(&config.tls_cert_file, &config.tls_private_key_file)?;
    let acceptor = tls::server_config(Arc::clone(&serving), &trust.clients)?;
    // Tasks behind the server outlive its last request.
    let inner = CancellationToken::new();
    let server = Arc::new(assemble(config, port, &inner).await?);
    spawn_tasks(&server, &trust, serving, &inner);
    tracing::info!(%address, port, "serving");
    let serving = CancellationToken::new();
    let stop = {
        let (server, shutdown, serving) = (Arc::clone(&server), shutdown.clone(), serving.clone());
        async move {
            shutdown.cancelled().await;
            server.health.set(Stage::Running, false);
            tokio::time::sleep(GOODBYE).await;
            server.shutdown.cancel();
            serving.cancel();
        }
    };
    copepod_supervisor::spawn("apiserver stop", stop);
    let result = serve::serve(listener, TlsAcceptor::from(acceptor), trust, server, serving).await;
    inner.cancel();
    result
}

fn load_trust(config: &Config) -> Result<Trust, ServeError> {
    let trust = Trust::default();
    for (file, authorities) in [
        (&config.client_ca_file, &trust.clients),
        (&config.requestheader_client_ca_file, &trust.front_proxies),
    ] {
        if let Some(path) = file {
            let bad = |_| ServeError::Pem { path: path.clone(), what: "a certificate authority" };
            authorities.load(&tls::read(path)?).map_err(bad)?;
        }
    }
    Ok(trust)
}

async fn backend(config: &Config) -> Result<Arc<dyn Backend>, ServeError> {
    let tls = match (&config.etcd_cafile, &config.etcd_certfile, &config.etcd_keyfile) {
        (Some(ca), Some(cert), Some(key)) => {
            Some(EtcdTls { ca: tls::read(ca)?, cert: tls::read(cert)?, key: tls::read(key)? })
        }
        _ => None,
    };
    let etcd = EtcdConfig { endpoints: config.etcd_servers.clone(), tls };
    let backend = EtcdBackend::connect(&etcd).await.map_err(|e| ServeError::Registry(e.to_string()))?;
    Ok(Arc::new(backend))
}

fn token_authority(config: &Config) -> Result<TokenAuthority, ServeError> {
    let signing = SigningKey::load(&config.service_account_signing_key_file)?;
    let files: Vec<PathBuf> = if config.service_account_key_file.is_empty() {
        vec![config.service_account_signing_key_file.clone()]
    } else {
        config.service_account_key_file.clone()
    };
    Ok(TokenAuthority {
        issuers: config.service_account_issuer.clone(),
        audiences: config.audiences(),
        keys: jwt::load_public_keys(&files)?,
        signing: Some(signing),
        extend_expiration: config.service_account_extend_token_expiration,
        reader: OnceLock::new(),
    })
}

fn static_tokens(config: &Config) -> Result<StaticTokens, ServeError> {
    let Some(path) = &config.token_auth_file else { return Ok(StaticTokens::default()) };
    let text = String::from_utf8_lossy(&tls::read(path)?).into_owned();
    StaticTokens::parse(&text).map_err(|line| ServeError::TokenFile { path: path.clone(), line })
}

fn kubelets(config: &Config) -> Result<Kubelets, ServeError> {
    let client = config.kubelet_client_certificate.as_deref().zip(config.kubelet_client_key.as_deref());
    let files = KubeletFiles { client, authority: config.kubelet_certificate_authority.as_deref() };
    Kubelets::load(files, &config.kubelet_preferred_address_types)
}

fn request_header(config: &Config) -> RequestHeader {
    RequestHeader {
        allowed_names: config.requestheader_allowed_names.clone(),
        username_headers: config.requestheader_username_headers.clone(),
        uid_headers: config.requestheader_uid_headers.clone(),
        group_headers: config.requestheader_group_headers.clone(),
        extra_prefixes: config.requestheader_extra_headers_prefix.clone(),
    }
}

async fn assemble(config: Config, port: u16, inner: &CancellationToken) -> Result<Server, ServeError> {
    let tokens = Arc::new(token_authority(&config)?);
    let conversions = Arc::new(Conversions::default());
    let compaction = go_duration("etcd-compaction-interval", &config.etcd_compaction_interval)?;
    let registry_config = RegistryConfig {
        service_cidrs: config.service_cluster_ip_range.clone(),
        node_ports: config.node_ports()?,
        token_issuer: Some(Arc::clone(&tokens) as Arc<dyn TokenIssuer>),
        conversions: Some(Arc::clone(&conversions) as Arc<dyn ConversionCaller>),
        event_ttl: go_duration("event-ttl", &config.event_ttl)?,
        compaction: Some(compaction).filter(|c| !c.is_zero()),
    };
    let registry = Registry::open(backend(&config).await?, registry_config, inner);
    let reader = Reader(Arc::clone(&registry));
    tokens.reader.set(reader.clone()).expect("the authority was made above, without a reader");
    let authorizer = Arc::new(Authorizer {
        rbac: Arc::new(RwLock::new(RbacIndex::default())),
        node: NodeAuthorizer { reader: reader.clone(), rules: crate::bootstrap::node_rules() },
        modes: config.authorization_mode.clone(),
    });
    let outbound = Outbound::new(reader.clone(), config.enable_aggregator_routing);
    conversions.0.set(Arc::clone(&outbound)).expect("they were made above, without a caller");
    let deps = admission::Deps {
        reader: reader.clone(),
        authorizer: Arc::clone(&authorizer),
        outbound: Arc::clone(&outbound),
    };
    let admission = admission::chain(&deps, |plugin| config.admission_enabled(plugin));
    let kubelets = kubelets(&config)?;
    let proxy = config.proxy_client_cert_file.as_deref().zip(config.proxy_client_key_file.as_deref());
    let aggregator = Arc::new(Aggregator::new(reader.clone(), outbound, proxy)?);
    Ok(Server {
        authn: Authenticator {
            request_header: request_header(&config),
            tokens,
            static_tokens: static_tokens(&config)?,
            bootstrap_tokens: config.enable_bootstrap_token_auth.then(|| reader.clone()),
            anonymous: config.anonymous_auth,
        },
        advertised: config.advertised()?,
        port,
        authz: authorizer,
        admission,
        discovery: ArcSwap::from_pointee(Discovery::build(&registry.rows(), &aggregator.remotes())),
        openapi: OpenApi {
            registry: Arc::clone(&registry),
            reader: reader.clone(),
            aggregator: Arc::clone(&aggregator),
        },
        aggregator,
        kubelets,
        metrics: Metrics::default(),
        health: Health::default(),
        shutdown: inner.child_token(),
        reader,
        registry,
        config,
    })
}

fn spawn_tasks(server: &Arc<Server>, trust: &Trust, serving: Arc<tls::Serving>, inner: &CancellationToken) {
    for resource in ["roles", "rolebindings", "clusterroles", "clusterrolebindings"] {
        let watching = watch_rbac(Arc::clone(server), resource);
        copepod_supervisor::spawn("rbac index", cancellable(watching, inner.clone()));
    }
    let starting = Arc::clone(server);
    copepod_supervisor::spawn(
        "bootstrap objects",
        cancellable(async move { starting.bootstrap().await }, inner.clone()),
    );
    let rows = Arc::clone(server);
    copepod_supervisor::spawn("discovery", cancellable(follow_rows(rows), inner.clone()));
    let conditions = crate::flowcontrol::follow(Arc::clone(server));
    copepod_supervisor::spawn("flow schemas", cancellable(conditions, inner.clone()));
    let checking = Arc::clone(&server.aggregator).watch();
    copepod_supervisor::spawn("aggregator", cancellable(checking, inner.clone()));
    let reloading = reload::follow(Arc::clone(server), trust.clone(), serving);
    copepod_supervisor::spawn("certificate files", cancellable(reloading, inner.clone()));
}

async fn cancellable(task: impl Future<Output = ()>, token: CancellationToken) {
    tokio::select! {
        () = token.cancelled() => {}
        () = task => {}
    }
}

/// Rebuilds discovery whenever rows come or go.
async fn follow_rows(server: Arc<Server>) {
    let (mut changed, mut elsewhere) = (server.registry.changed(), server.aggregator.changed());
    loop {
        changed.borrow_and_update();
        elsewhere.borrow_and_update();
        let documents = Discovery::build(&server.registry.rows(), &server.aggregator.remotes());
        server.discovery.store(Arc::new(documents));
        let ticked = tokio::select! {
            ticked = changed.changed() => ticked,
            ticked = elsewhere.changed() => ticked,
        };
        if ticked.is_err() {
            return;
        }
    }
}

/// Keeps the RBAC index in step with one resource, for ever.
async fn watch_rbac(server: Arc<Server>, resource: &'static str) {
    let gvr = GroupVersionResource::new("rbac.authorization.k8s.io", "v1", resource);
    let Some(store) = server.registry.store(&gvr) else { return };
    server.registry.ready().await;
    loop {
        let options = ListOptions {
            send_initial_events: Some(true),
            resource_version_match: "NotOlderThan".to_owned(),
            allow_watch_bookmarks: true,
            timeout_seconds: Some(u64::from(u32::MAX)),
            ..ListOptions::default()
        };
        match store.watch(&RequestContext::internal(), None, &options).await {
            Ok(mut stream) => {
                while let Some(item) = stream.next().await {
                    let object = match item.kind {
                        WatchKind::Bookmark => continue,
                        WatchKind::Error => break,
                        _ => item.object.to_value(),
                    };
                    let present = (item.kind != WatchKind::Deleted).then_some(&object);
                    let (namespace, name) =
                        (copepod_api::meta::namespace(&object), copepod_api::meta::name(&object));
                    server.authz.rbac.write().set(resource, namespace, name, present);
                }
            }
            Err(error) => {
                tracing::warn!(%error, resource, "watch");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}
