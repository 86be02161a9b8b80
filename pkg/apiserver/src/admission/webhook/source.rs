//! The webhooks there are, read from their configurations when these change.

use std::sync::Arc;

use copepod_api::GroupVersionResource;
use parking_lot::Mutex;

use super::hook::{self, Hook};
use crate::reader::Reader;

const GROUP: &str = "admissionregistration.k8s.io";

/// The webhooks of one kind of configuration, in the order of the configurations' names.
#[derive(Debug)]
pub(super) struct Source {
    resource: &'static str,
    known: Mutex<Option<(i64, Arc<[Hook]>)>>,
}

impl Source {
    /// Webhooks of the configurations `resource`.
    pub(super) fn new(resource: &'static str) -> Self {
        Self { resource, known: Mutex::new(None) }
    }

    /// All of them, as the watch cache has them now.
    pub(super) async fn hooks(&self, reader: &Reader) -> Arc<[Hook]> {
        let Some(stamp) = reader.0.stamp(&GroupVersionResource::new(GROUP, "v1", self.resource)) else {
            return Arc::new([]);
        };
        if let Some((known, hooks)) = &*self.known.lock()
            && *known == stamp
        {
            return Arc::clone(hooks);
        }
        // Sorted by name: keys are.
        let configurations = reader.list(GROUP, self.resource, None, "").await;
        let hooks: Arc<[Hook]> = configurations.iter().flat_map(hook::of).collect();
        *self.known.lock() = Some((stamp, Arc::clone(&hooks)));
        hooks
    }
}
