//! A catalog that tests fill.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::json;

use super::{Catalog, ServiceView, SliceView, owner};

#[derive(Default)]
pub(crate) struct Memory {
    services: BTreeMap<(String, String), Arc<ServiceView>>,
    slices: Vec<Arc<SliceView>>,
}

impl Catalog for Memory {
    fn service(&self, namespace: &str, name: &str) -> Option<Arc<ServiceView>> {
        self.services.get(&(namespace.into(), name.into())).cloned()
    }
    fn slices(&self, namespace: &str, service: &str) -> Vec<Arc<SliceView>> {
        let of = |s: &&Arc<SliceView>| s.metadata.namespace == namespace && owner(s) == Some(service);
        self.slices.iter().filter(of).cloned().collect()
    }
    fn service_at(&self, address: IpAddr) -> Option<Arc<ServiceView>> {
        self.services.values().find(|s| s.addresses().contains(&address)).cloned()
    }
    fn slices_at(&self, address: IpAddr) -> Vec<Arc<SliceView>> {
        let has = |s: &&Arc<SliceView>| s.endpoints.iter().any(|e| e.ready_address() == Some(address));
        self.slices.iter().filter(has).cloned().collect()
    }
    fn has_namespace(&self, namespace: &str) -> bool {
        self.services.keys().any(|(ns, _)| ns == namespace)
    }
    fn is_complete(&self) -> bool {
        !self.services.is_empty()
    }
}

pub(crate) fn catalog() -> Memory {
    let mut memory = Memory::default();
    let services = [
        json!({ "metadata": { "name": "web", "namespace": "default" }, "spec": { "clusterIP": "10.96.0.5",
            "ports": [{ "name": "http", "protocol": "TCP", "port": 80 }] } }),
        json!({ "metadata": { "name": "kube-dns", "namespace": "kube-system" }, "spec": { "clusterIP": "10.96.0.10" } }),
        json!({ "metadata": { "name": "db", "namespace": "default" }, "spec": { "clusterIP": "None" } }),
        json!({ "metadata": { "name": "empty", "namespace": "default" }, "spec": { "clusterIP": "None" } }),
        json!({ "metadata": { "name": "out", "namespace": "default" },
            "spec": { "type": "ExternalName", "externalName": "example.org" } }),
    ];
    for service in services {
        let view: ServiceView = serde_json::from_value(service).unwrap();
        let key = (view.metadata.namespace.clone(), view.metadata.name.clone());
        memory.services.insert(key, Arc::new(view));
    }
    let slice = json!({ "metadata": { "name": "db-1", "namespace": "default",
            "labels": { "kubernetes.io/service-name": "db" } },
        "ports": [{ "name": "sql", "protocol": "TCP", "port": 5432 }],
        "endpoints": [
            { "addresses": ["10.244.0.7"], "hostname": "db-0" },
            { "addresses": ["10.244.0.8"] },
            { "addresses": ["10.244.0.9"], "hostname": "db-2", "conditions": { "ready": false } }] });
    memory.slices.push(Arc::new(serde_json::from_value(slice).unwrap()));
    memory
}
