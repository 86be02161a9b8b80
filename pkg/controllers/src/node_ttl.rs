//! How long a kubelet may keep what it has read of Secrets and ConfigMaps: the longer, the more nodes ask.

use copepod_client::resources::NODES;
use copepod_client::{ObjectKey, Outcome, WorkQueue};
use serde_json::json;

use crate::context::{Context, SyncResult, enqueue};
use crate::step::{Step, execute_all};

const TTL: &str = "node.alpha.kubernetes.io/ttl";

/// Upstream's ranges of cluster sizes and their seconds. They overlap, so that a size at an edge changes nothing.
const RANGES: [(usize, usize, u32); 5] =
    [(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, usize::MAX, 300)];

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.nodes, &queue);
    context.work(&queue, 1, sync);
}

/// The seconds for a number of nodes, where they were `current` so far.
fn wanted(current: Option<u32>, nodes: usize) -> u32 {
    let fits = |range: &&(usize, usize, u32)| (range.0..=range.1).contains(&nodes);
    let kept = RANGES.iter().filter(fits).find(|range| Some(range.2) == current);
    kept.or_else(|| RANGES.iter().find(fits)).map_or(0, |range| range.2)
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    let Some(node) = context.caches.nodes.get_key(&key) else { return Ok(Outcome::Done) };
    let current = node.metadata.annotation(TTL).and_then(|text| text.parse().ok());
    let seconds = wanted(current, context.caches.nodes.list().len());
    if current != Some(seconds) {
        let body = json!({"metadata": {"annotations": {TTL: seconds.to_string()}}});
        execute_all(&context, vec![Step::merge(&NODES, &node.metadata, body)]).await?;
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::wanted;

    #[test]
    fn more_nodes_ask_less_often_and_edges_do_not_flap() {
        assert_eq!(wanted(None, 1), 0);
        assert_eq!(wanted(Some(0), 95), 0);
        assert_eq!(wanted(Some(15), 95), 15);
        assert_eq!(wanted(Some(15), 89), 0);
        assert_eq!(wanted(Some(0), 101), 15);
        assert_eq!(wanted(None, 5000), 300);
    }
}
