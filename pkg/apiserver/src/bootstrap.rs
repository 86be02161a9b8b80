//! What the server puts in place at its start: namespaces, RBAC, priority objects, its own Service
//! (upstream's post-start hooks). Everything is idempotent and compares before it writes.

use std::net::IpAddr;
use std::time::Duration;

use copepod_api::{ApiResult, GroupVersionResource, Reason, meta};
use copepod_registry::{Body, RequestContext, Target};
use serde_json::{Value, json};

use crate::health::Stage;
use crate::server::Server;

mod rbac;

pub(crate) use rbac::node_rules;

/// Namespaces that always exist.
const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];
/// Flow schemas, priority levels and priority classes: facts of upstream's bootstrap.
const PRIORITY: &str = include_str!("../data/priority.json");
/// How long to wait before a failed step is tried again at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// What to do with an object that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existing {
    /// Leave it.
    Keep,
    /// Make `spec` (or the data) what it should be.
    Replace,
}

impl Server {
    /// Runs every step until it succeeds; readiness follows.
    pub(crate) async fn bootstrap(&self) {
        self.registry.ready().await;
        self.health.set(Stage::Store, true);
        self.until_done("namespaces", || self.namespaces()).await;
        self.health.set(Stage::Namespaces, true);
        self.until_done("rbac", || self.reconcile_rbac()).await;
        self.health.set(Stage::Roles, true);
        self.until_done("priority", || self.priority()).await;
        self.health.set(Stage::Priorities, true);
        self.until_done("authentication", || self.authentication_config()).await;
        self.health.set(Stage::Authentication, true);
        self.until_done("kubernetes service", || self.own_service()).await;
        self.health.set(Stage::Service, true);
        tracing::info!("bootstrap objects are in place");
    }

    async fn until_done<F>(&self, step: &str, run: impl Fn() -> F)
    where
        F: Future<Output = ApiResult<()>>,
    {
        let mut pause = RETRY.0;
        while let Err(error) = run().await {
            tracing::warn!(step, %error, "bootstrap");
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(RETRY.1);
        }
    }

    async fn namespaces(&self) -> ApiResult<()> {
        for name in NAMESPACES {
            let object = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}});
            self.ensure("", "namespaces", object, Existing::Keep).await?;
        }
        Ok(())
    }

    async fn priority(&self) -> ApiResult<()> {
        for object in data(PRIORITY) {
            let (group, resource) = match object["kind"].as_str() {
                Some("FlowSchema") => ("flowcontrol.apiserver.k8s.io", "flowschemas"),
                Some("PriorityLevelConfiguration") => {
                    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations")
                }
                _ => ("scheduling.k8s.io", "priorityclasses"),
            };
            self.ensure(group, resource, object, Existing::Keep).await?;
        }
        Ok(())
    }

    /// What aggregated servers need to trust the front proxy.
    async fn authentication_config(&self) -> ApiResult<()> {
        let config = &self.config;
        let mut entries = serde_json::Map::new();
        let files = [
            ("client-ca-file", &config.client_ca_file),
            ("requestheader-client-ca-file", &config.requestheader_client_ca_file),
        ];
        for (key, file) in files {
            if let Some(text) = file.as_ref().and_then(|f| std::fs::read_to_string(f).ok()) {
                entries.insert(key.to_owned(), text.into());
            }
        }
        if config.requestheader_client_ca_file.is_some() {
            for (key, list) in [
                ("requestheader-allowed-names", &config.requestheader_allowed_names),
                ("requestheader-username-headers", &config.requestheader_username_headers),
                ("requestheader-group-headers", &config.requestheader_group_headers),
                ("requestheader-extra-headers-prefix", &config.requestheader_extra_headers_prefix),
            ] {
                entries.insert(key.to_owned(), json!(list).to_string().into());
            }
            let uid = &config.requestheader_uid_headers;
            if !uid.is_empty() {
                entries.insert("requestheader-uid-headers".to_owned(), json!(uid).to_string().into());
            }
        }
        let object = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"}, "data": entries,
        });
        self.ensure("", "configmaps", object, Existing::Replace).await?;
        // Since when uses of legacy tokens are tracked: there have never been any here, but the cleaner asks.
        let today = copepod_sys::clock::now().strftime("%Y-%m-%d").to_string();
        let tracking = json!({
            "kind": "ConfigMap", "apiVersion": "v1", "data": {"since": today},
            "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"},
        });
        self.ensure("", "configmaps", tracking, Existing::Keep).await
    }

    /// The Service `kubernetes`, with this server as its endpoint.
    async fn own_service(&self) -> ApiResult<()> {
        let address = self.advertised.to_string();
        let port = self.port;
        if let Some(first) = self.config.service_cluster_ip_range.first() {
            let metadata = json!({"name": "kubernetes", "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"}});
            let family = if first.addr().is_ipv4() { "IPv4" } else { "IPv6" };
            let ip = first_address(first.network()).to_string();
            let service = json!({
                "kind": "Service", "apiVersion": "v1", "metadata": metadata,
                "spec": {"clusterIP": ip, "clusterIPs": [ip], "type": "ClusterIP", "sessionAffinity": "None",
                    "ipFamilies": [family], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
                    "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]},
            });
            self.ensure("", "services", service, Existing::Keep).await?;
        }
        if self.advertised.is_loopback() {
            // Endpoints may not be loopback addresses: a server that is alone with itself has none.
            tracing::warn!(%address, "no endpoints of the Service kubernetes: the advertised address is a loopback one");
            return Ok(());
        }
        let endpoints = json!({
            "kind": "Endpoints", "apiVersion": "v1",
            "metadata": {"name": "kubernetes", "namespace": "default",
                "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": address}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
        });
        self.ensure("", "endpoints", endpoints, Existing::Replace).await?;
        let family = if self.advertised.is_ipv4() { "IPv4" } else { "IPv6" };
        let slice = json!({
            "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": family, "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        });
        self.ensure("discovery.k8s.io", "endpointslices", slice, Existing::Replace).await
    }

    /// Creates an object, or brings the one that exists in line.
    async fn ensure(&self, group: &str, resource: &str, object: Value, existing: Existing) -> ApiResult<()> {
        let gvr = GroupVersionResource::new(group, "v1", resource);
        let Some(store) = self.registry.store(&gvr) else {
            return Err(copepod_api::ApiError::internal(format!("no store of {resource}")));
        };
        let cx = RequestContext::internal();
        let namespace = Some(meta::namespace(&object)).filter(|ns| !ns.is_empty()).map(str::to_owned);
        let target = Target::new(namespace.as_deref(), meta::name(&object));
        let current = match store.get(&cx, &target, "").await {
            Ok(current) => current.into_value(),
            Err(error) if error.is(Reason::NotFound) => {
                let collection = Target::new(namespace.as_deref(), "");
                return match store.create(&cx, &collection, Body::Value(object)).await {
                    Err(error) if !error.is(Reason::AlreadyExists) => Err(error),
                    _ => Ok(()),
                };
            }
            Err(error) => return Err(error),
        };
        if existing == Existing::Keep {
            return Ok(());
        }
        let mut merged = current.clone();
        for (field, wanted) in object.as_object().into_iter().flatten() {
            if !matches!(field.as_str(), "metadata" | "kind" | "apiVersion") {
                merged[field] = wanted.clone();
            }
        }
        for (key, value) in meta::labels(&object).into_iter().flatten() {
            meta::child_mut(meta::metadata_mut(&mut merged), "labels").insert(key.clone(), value.clone());
        }
        if merged != current {
            store.update(&cx, &target, Body::Value(merged)).await?;
        }
        Ok(())
    }
}

/// The objects of a data file of this crate.
fn data(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("the data files of this crate are JSON lists")
}

/// The first usable address of a network.
fn first_address(network: IpAddr) -> IpAddr {
    match network {
        IpAddr::V4(v4) => std::net::Ipv4Addr::from(u32::from(v4).wrapping_add(1)).into(),
        IpAddr::V6(v6) => std::net::Ipv6Addr::from(u128::from(v6).wrapping_add(1)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_files_are_complete() {
        let kinds = |text, kind: &str| data(text).iter().filter(|o| o["kind"].as_str() == Some(kind)).count();
        assert_eq!(kinds(PRIORITY, "PriorityClass"), 2);
        assert_eq!(kinds(PRIORITY, "FlowSchema"), 11);
        assert_eq!(kinds(PRIORITY, "PriorityLevelConfiguration"), 8);
        assert_eq!(first_address([10, 96, 0, 0].into()), IpAddr::from([10, 96, 0, 1]));
    }
}
