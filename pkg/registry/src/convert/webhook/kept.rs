//! Converted entries that may be asked for again.

use std::{collections::VecDeque, sync::Arc};

use copepod_store::Entry;

/// Most entries.
const MOST: usize = 256;
/// Most bytes of them.
const MOST_BYTES: usize = 512 * 1024;

/// The newest converted entries. The version is the entry's own.
#[derive(Debug, Default)]
pub(super) struct Kept {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
}

impl Kept {
    /// What `entry` is in version `to`, if it is still here.
    pub(super) fn get(&self, entry: &Entry, to: &str) -> Option<Arc<Entry>> {
        let same = |kept: &&Arc<Entry>| {
            kept.revision() == entry.revision() && kept.key() == entry.key() && kept.api_version() == to
        };
        self.entries.iter().rev().find(same).map(Arc::clone)
    }

    /// Keeps a converted entry. Those that the webhook gave another version than `to` are of no use.
    pub(super) fn put(&mut self, to: &str, entry: &Arc<Entry>) {
        if entry.api_version() != to || self.get(entry, to).is_some() {
            return;
        }
        self.bytes += entry.stored().len();
        self.entries.push_back(Arc::clone(entry));
        while self.entries.len() > MOST || self.bytes > MOST_BYTES {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.bytes -= oldest.stored().len();
        }
    }
}
