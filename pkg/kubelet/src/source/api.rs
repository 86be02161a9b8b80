//! Pods bound to this node, from the API server.

use std::sync::Arc;

use copepod_client::{Client, Informer, InformerConfig, resources::PODS};
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Source, SourceUpdate};
use crate::types::PodRef;

/// All pods of the node, mirrors included.
pub type ApiPods = Vec<PodRef>;

/// Follows the server and sends the full set on every change; `seen` is called with it first,
/// mirrors included, which the update leaves out.
pub async fn run(
    client: Client,
    node: String,
    updates: mpsc::Sender<SourceUpdate>,
    seen: Arc<dyn Fn(&ApiPods) + Send + Sync>,
    shutdown: CancellationToken,
) {
    let config = InformerConfig::all(PODS).fields(format!("spec.nodeName={node}"));
    let informer: Informer<Pod> = Informer::new(config);
    let mut changes = informer.changes();
    informer.start(&client, &shutdown);
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = informer.synced() => {}
    }
    loop {
        changes.mark_unchanged();
        let pods = informer.list();
        seen(&pods);
        let own = pods.into_iter().filter(|p| !crate::pod::PodExt::is_mirror(p.as_ref())).collect();
        if updates.send(SourceUpdate { source: Source::Api, pods: own }).await.is_err() {
            return;
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}
