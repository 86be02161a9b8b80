//! User namespaces: a range of the host's user ids for each pod that asks for its own (`hostUsers: false`).
//!
//! A range is 65,536 ids long and never the first one, which is the host's. It is written into the pod's directory
//! (upstream's file `userns`), so that a new process knows the ranges that are taken.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use copepod_cri::v1 as cri;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::pod::PodExt;

/// Ids of one pod.
const LENGTH: u32 = 65_536;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mapping {
    host_id: u32,
    container_id: u32,
    length: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mappings {
    uid_mappings: Vec<Mapping>,
    gid_mappings: Vec<Mapping>,
}

/// The ranges of all pods.
#[derive(Debug)]
pub struct UserNamespaces {
    pods: PathBuf,
    /// Slot numbers by pod UID.
    taken: Mutex<BTreeMap<String, u32>>,
}

fn file(pods: &Path, uid: &str) -> PathBuf {
    pods.join(uid).join("userns")
}

impl UserNamespaces {
    /// The ranges recorded below `pods`, the directory of pods' directories.
    #[must_use]
    pub fn new(pods: PathBuf) -> Self {
        let mut taken = BTreeMap::new();
        for entry in std::fs::read_dir(&pods).into_iter().flatten().flatten() {
            let uid = entry.file_name().to_string_lossy().into_owned();
            let recorded = std::fs::read(file(&pods, &uid)).ok();
            let recorded = recorded.and_then(|text| serde_json::from_slice::<Mappings>(&text).ok());
            if let Some(mapping) = recorded.and_then(|m| m.uid_mappings.first().copied()) {
                taken.insert(uid, mapping.host_id / LENGTH);
            }
        }
        Self { pods, taken: Mutex::new(taken) }
    }

    /// The pod's range, found or taken; `None` for pods that share the host's users.
    ///
    /// # Errors
    /// When no range is free or it cannot be recorded.
    pub fn of(&self, pod: &Pod) -> Result<Option<cri::UserNamespace>, String> {
        if pod.spec().host_users != Some(false) {
            return Ok(None);
        }
        let slot = self.slot(pod.uid())?;
        let mapping = Mapping { host_id: slot * LENGTH, container_id: 0, length: LENGTH };
        let ids = vec![cri::IdMapping { host_id: mapping.host_id, container_id: 0, length: LENGTH }];
        let record = Mappings { uid_mappings: vec![mapping], gid_mappings: vec![mapping] };
        self.record(pod.uid(), &record).map_err(|e| format!("record user namespace mappings: {e}"))?;
        let mut namespace = cri::UserNamespace { uids: ids.clone(), gids: ids, ..Default::default() };
        namespace.set_mode(cri::NamespaceMode::Pod);
        Ok(Some(namespace))
    }

    fn slot(&self, uid: &str) -> Result<u32, String> {
        let mut taken = self.taken.lock();
        if let Some(slot) = taken.get(uid) {
            return Ok(*slot);
        }
        let free = (1..u32::MAX / LENGTH).find(|slot| !taken.values().any(|t| t == slot));
        let slot = free.ok_or("could not find an empty slot to allocate a user namespace")?;
        taken.insert(uid.to_owned(), slot);
        Ok(slot)
    }

    fn record(&self, uid: &str, mappings: &Mappings) -> std::io::Result<()> {
        let path = file(&self.pods, uid);
        if path.exists() {
            return Ok(());
        }
        let temporary = path.with_extension("tmp");
        std::fs::write(&temporary, serde_json::to_vec(mappings)?)?;
        std::fs::File::open(&temporary)?.sync_all()?;
        std::fs::rename(temporary, path)
    }

    /// The pod and its directory are gone.
    pub fn release(&self, uid: &str) {
        self.taken.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, host_users: bool) -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": uid, "uid": uid}, "spec": {"hostUsers": host_users, "containers": []}
        }))
        .unwrap()
    }

    #[test]
    fn ranges_do_not_overlap_and_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        for uid in ["a", "b"] {
            std::fs::create_dir(dir.path().join(uid)).unwrap();
        }
        let all = UserNamespaces::new(dir.path().to_owned());
        let first = |all: &UserNamespaces, uid| all.of(&pod(uid, false)).unwrap().unwrap().uids[0].host_id;
        assert!(all.of(&pod("a", true)).unwrap().is_none());
        assert_eq!((first(&all, "a"), first(&all, "b"), first(&all, "a")), (65_536, 131_072, 65_536));
        let later = UserNamespaces::new(dir.path().to_owned());
        std::fs::create_dir(dir.path().join("c")).unwrap();
        assert_eq!((first(&later, "b"), first(&later, "c")), (131_072, 196_608));
        later.release("a");
        std::fs::create_dir(dir.path().join("d")).unwrap();
        assert_eq!(first(&later, "d"), 65_536);
    }
}
