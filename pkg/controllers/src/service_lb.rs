//! Services of type LoadBalancer: on one machine the node is the load balancer, so its addresses are the ingress.
//!
//! The part of upstream's cloud service controller that a node without a cloud can play. A Service that names a
//! `loadBalancerClass` is somebody else's.

use copepod_client::resources::SERVICES;
use copepod_client::{ObjectKey, Outcome, WorkQueue};
use serde_json::json;

use crate::context::{Context, SyncResult, enqueue};
use crate::step::{Step, execute_all};
use crate::views::{Ingress, Node, Service};

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.services, &queue);
    let (services, changed) = (context.caches.services.clone(), queue.clone());
    context.caches.nodes.on_change(move |_, delta| {
        let addresses = |node: &Node| node.status.addresses.clone();
        // A heartbeat changes a node every few seconds; only its addresses matter here.
        if delta.old().is_some_and(|old| addresses(old) == addresses(delta.object())) {
            return;
        }
        for service in services.list().iter().filter(|s| is_ours(s)) {
            changed.add(service.metadata.key());
        }
    });
    context.work(&queue, 1, |context, key| async move { sync(&context, &key).await });
}

async fn sync(context: &Context, key: &ObjectKey) -> SyncResult {
    let Some(service) = context.caches.services.get_key(key) else { return Ok(Outcome::Done) };
    let nodes = context.caches.nodes.list();
    let Some(ingress) = plan(&service, nodes.iter().map(AsRef::as_ref)) else { return Ok(Outcome::Done) };
    let status = json!({"loadBalancer": {"ingress": ingress}});
    let step = Step::status(&SERVICES, &service.metadata, status);
    execute_all(context, vec![step]).await?;
    Ok(Outcome::Done)
}

fn is_ours(service: &Service) -> bool {
    &*service.spec.r#type == "LoadBalancer" && service.spec.load_balancer_class.is_none()
}

/// The ingress a Service should have, when it has another; `None` when nothing is to be done.
fn plan<'a>(service: &Service, nodes: impl Iterator<Item = &'a Node>) -> Option<Vec<Ingress>> {
    let have = &service.status.load_balancer.ingress;
    let classed = service.spec.load_balancer_class.is_some();
    if &*service.spec.r#type == "LoadBalancer" && classed {
        return None;
    }
    let want: Vec<Ingress> = if is_ours(service) {
        let families = &service.spec.ip_families;
        let internal = nodes.flat_map(|n| &n.status.addresses).filter(|a| a.r#type == "InternalIP");
        let served = internal.filter(|a| {
            let family = if a.address.contains(':') { "IPv6" } else { "IPv4" };
            families.is_empty() || families.iter().any(|f| f == family)
        });
        served.map(|a| Ingress { ip: a.address.clone(), ip_mode: "VIP".to_owned() }).collect()
    } else {
        Vec::new()
    };
    let differ = have.len() != want.len() || have.iter().zip(&want).any(|(a, b)| a.ip != b.ip);
    differ.then_some(want)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(kind: &str, class: Option<&str>, ingress: &[&str]) -> Service {
        let ingress: Vec<_> = ingress.iter().map(|ip| json!({"ip": ip})).collect();
        serde_json::from_value(json!({
            "metadata": {"name": "s", "namespace": "d"},
            "spec": {"type": kind, "loadBalancerClass": class, "ipFamilies": ["IPv4"]},
            "status": {"loadBalancer": {"ingress": ingress}},
        }))
        .unwrap()
    }

    fn node() -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"addresses": [
            {"type": "InternalIP", "address": "192.168.1.2"}, {"type": "InternalIP", "address": "fd00::2"},
            {"type": "Hostname", "address": "n"}]}}))
        .unwrap()
    }

    #[test]
    fn the_nodes_address_of_the_services_family() {
        let ips = |s: &Service| {
            plan(s, [&node()].into_iter()).map(|list| list.into_iter().map(|i| i.ip).collect::<Vec<_>>())
        };
        assert_eq!(ips(&service("LoadBalancer", None, &[])), Some(vec!["192.168.1.2".to_owned()]));
        assert_eq!(ips(&service("LoadBalancer", None, &["192.168.1.2"])), None, "as it should be");
        assert_eq!(ips(&service("LoadBalancer", Some("example.com/lb"), &[])), None, "somebody else's");
        assert_eq!(ips(&service("ClusterIP", None, &["192.168.1.2"])), Some(Vec::new()), "no longer one");
        assert_eq!(ips(&service("ClusterIP", None, &[])), None);
    }
}
