//! The garbage collector: objects whose owners are gone go too.
//!
//! [`graph::Graph`] knows of every object its owners, fed by metadata-only caches of all resources discovery lists
//! (the shared caches where there is one). Decisions that delete are checked against the server first, since the
//! graph may be behind.

mod graph;
mod monitors;
mod processor;

use std::sync::Arc;

use copepod_client::{Outcome, WorkQueue};
use parking_lot::Mutex;

use crate::context::Context;
use graph::Graph;
use monitors::Monitors;

/// Upstream's names of the finalizers that stand for a way of deletion.
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// What the collector's tasks share.
#[derive(Debug)]
struct Collector {
    graph: Mutex<Graph>,
    monitors: Monitors,
    /// UIDs to look at.
    queue: WorkQueue<String>,
}

/// Starts the collector.
pub(crate) fn start(context: &Context) {
    let collector = Arc::new(Collector {
        graph: Mutex::new(Graph::default()),
        monitors: Monitors::default(),
        queue: WorkQueue::new(),
    });
    monitors::spawn(context, &collector);
    for _ in 0..4 {
        let (context, collector) = (context.clone(), Arc::clone(&collector));
        copepod_supervisor::spawn(context.name, async move {
            collector.monitors.ready().await;
            let work = collector.queue.work(context.name, |uid| {
                let (context, collector) = (&context, &collector);
                async move { processor::process(context, collector, &uid).await.map(|()| Outcome::Done) }
            });
            tokio::select! {
                () = work => {}
                () = context.shutdown.cancelled() => {}
            }
        });
    }
}
