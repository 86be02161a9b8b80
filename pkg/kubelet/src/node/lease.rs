//! The heartbeat: a Lease in `kube-node-lease`, renewed whatever the sync loop does.

use std::time::Duration;

use copepod_client::resources::{LEASES, NODES};
use copepod_client::{Client, ClientError};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "kube-node-lease";

/// Renews until shutdown.
pub(super) async fn run(client: Client, node: String, duration: Duration, shutdown: CancellationToken) {
    let mut lease: Option<Value> = None;
    let mut wait = Duration::ZERO;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = sleep(wait) => {}
        }
        wait = match renew(&client, &node, duration, lease.take()).await {
            Ok(renewed) => {
                lease = Some(renewed);
                duration / 4
            }
            Err(error) => {
                tracing::debug!(error = %copepod_client::chain(&error), "node lease not renewed");
                Duration::from_secs(1)
            }
        };
    }
}

async fn renew(
    client: &Client,
    node: &str,
    duration: Duration,
    last: Option<Value>,
) -> Result<Value, ClientError> {
    let target = LEASES.object(NAMESPACE, node);
    let known = match last {
        Some(lease) => Some(lease),
        None => match client.get::<Value>(&target).await {
            Ok(lease) => Some(lease),
            Err(error) if error.not_found() => None,
            Err(error) => return Err(error),
        },
    };
    let spec = json!({
        "holderIdentity": node,
        "leaseDurationSeconds": duration.as_secs(),
        "renewTime": copepod_client::lease::micro(copepod_sys::clock::now()),
    });
    match known {
        Some(mut lease) => {
            lease["spec"] = spec;
            client.update(&target, &lease).await
        }
        None => {
            let owner: Value = client.get(&NODES.object("", node)).await?;
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {
                    "name": node,
                    "namespace": NAMESPACE,
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner["metadata"]["uid"]}],
                },
                "spec": spec,
            });
            client.create(&LEASES.collection(NAMESPACE), &lease).await
        }
    }
}
