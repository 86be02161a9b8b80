//! Results by container id, for planner and status.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::ProbeKind;
use crate::runtime::plan::{ProbeResult, ProbeVerdicts};

#[derive(Debug, Default)]
struct Entry {
    uid: String,
    values: HashMap<ProbeKind, ProbeResult>,
}

/// What probes have found, shared by tasks, planner and status.
#[derive(Debug, Default)]
pub struct ProbeResults {
    entries: Mutex<HashMap<String, Entry>>,
}

impl ProbeResults {
    /// Notes that a probe runs, before its first word: liveness counts as success, readiness as
    /// failure, startup as unknown; `passed` ones go on as success.
    pub fn begin(&self, container_id: &str, kind: ProbeKind, passed: bool) {
        let first = match kind {
            _ if passed => ProbeResult::Success,
            ProbeKind::Liveness => ProbeResult::Success,
            ProbeKind::Readiness => ProbeResult::Failure,
            ProbeKind::Startup => ProbeResult::Unknown,
        };
        self.entries.lock().entry(container_id.to_owned()).or_default().values.entry(kind).or_insert(first);
    }

    /// Stores a result; true when it is news.
    pub fn set(&self, uid: &str, container_id: &str, kind: ProbeKind, result: ProbeResult) -> bool {
        let mut entries = self.entries.lock();
        let entry = entries.entry(container_id.to_owned()).or_default();
        uid.clone_into(&mut entry.uid);
        entry.values.insert(kind, result) != Some(result)
    }

    /// One result; `None` when that probe does not run for this container.
    #[must_use]
    pub fn get(&self, container_id: &str, kind: ProbeKind) -> Option<ProbeResult> {
        self.entries.lock().get(container_id)?.values.get(&kind).copied()
    }

    /// Forgets containers of `uid` that are not in `live`.
    pub fn retain(&self, uid: &str, live: &[&str]) {
        self.entries.lock().retain(|id, entry| entry.uid != uid || live.contains(&id.as_str()));
    }
}

impl ProbeVerdicts for ProbeResults {
    fn liveness(&self, container_id: &str) -> Option<ProbeResult> {
        self.get(container_id, ProbeKind::Liveness)
    }

    fn startup(&self, container_id: &str) -> Option<ProbeResult> {
        self.get(container_id, ProbeKind::Startup)
    }
}
