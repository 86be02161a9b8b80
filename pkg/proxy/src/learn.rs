//! What a proxy that was told little can learn from the API: its node's addresses and the ranges of Services.

use std::net::IpAddr;

use copepod_client::{Client, Informer, InformerConfig, resources};
use ipnet::IpNet;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::config::Config;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeView {
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    addresses: Vec<NodeAddress>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAddress {
    r#type: String,
    address: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RangeView {
    spec: RangeSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RangeSpec {
    cidrs: Vec<IpNet>,
}

impl NodeView {
    /// The internal addresses, or the external ones of a node that has no others.
    fn addresses(&self) -> Vec<IpAddr> {
        let of = |kind: &str| -> Vec<IpAddr> {
            let all = self.status.addresses.iter().filter(|a| a.r#type == kind);
            all.filter_map(|a| a.address.parse().ok()).collect()
        };
        let internal = of("InternalIP");
        if internal.is_empty() { of("ExternalIP") } else { internal }
    }
}

/// Fills in what `config` leaves empty, waiting until the API knows it; unfinished when `shutdown` comes first.
pub(crate) async fn learn(mut config: Config, client: &Client, shutdown: &CancellationToken) -> Config {
    let stop = shutdown.child_token();
    if config.node_ips.is_empty() {
        let own = InformerConfig::all(resources::NODES).fields(format!("metadata.name={}", config.node_name));
        let nodes = Informer::<NodeView>::new(own);
        nodes.start(client, &stop);
        tracing::info!(node = config.node_name, "proxy waits for the addresses of its Node");
        config.node_ips = first(&nodes, shutdown, NodeView::addresses).await;
    }
    if config.service_cidrs.is_empty() {
        let ranges = Informer::<RangeView>::new(InformerConfig::all(resources::SERVICE_CIDRS));
        ranges.start(client, &stop);
        config.service_cidrs = first(&ranges, shutdown, |range| range.spec.cidrs.clone()).await;
    }
    stop.cancel();
    config
}

/// What all objects say, once they say anything.
async fn first<T, V>(
    informer: &Informer<T>,
    shutdown: &CancellationToken,
    say: impl Fn(&T) -> Vec<V>,
) -> Vec<V> {
    let mut changes = informer.changes();
    loop {
        let said: Vec<V> = informer.list().iter().flat_map(|object| say(object)).collect();
        if !said.is_empty() {
            return said;
        }
        tokio::select! {
            () = shutdown.cancelled() => return said,
            // The sender lives as long as the informer.
            changed = changes.changed() => if changed.is_err() { return said },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_addresses_are_the_second_choice() {
        let node = |text: &str| serde_json::from_str::<NodeView>(text).unwrap().addresses();
        let both = r#"{"status":{"addresses":[{"type":"ExternalIP","address":"9.9.9.9"},{"type":"InternalIP","address":"10.0.0.1"}]}}"#;
        assert_eq!(node(both), ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        let external = r#"{"status":{"addresses":[{"type":"Hostname","address":"h"},{"type":"ExternalIP","address":"9.9.9.9"}]}}"#;
        assert_eq!(node(external), ["9.9.9.9".parse::<IpAddr>().unwrap()]);
        assert!(node("{}").is_empty());
    }
}
