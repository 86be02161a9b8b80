//! Node-local records that survive a restart: a small face over sled, with one writer, the agent.
//!
//! Every change is on disk before its call returns. A store that cannot be read is set aside under another name and
//! started anew: what it holds is rebuilt from the running system.

use std::path::{Path, PathBuf};

/// Children per leaf of the tree; sled's own default.
const FANOUT: usize = 1024;
/// Page cache, in bytes; records are small and few.
const CACHE: usize = 2 << 20;

/// The store cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Opening failed, also after setting the old one aside.
    #[error("open the node store {path}")]
    Open {
        /// Where it is.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Reading or writing failed.
    #[error("{operation} the node store")]
    Access {
        /// `read` or `write`.
        operation: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// The open store. Cheap to clone.
#[derive(Clone)]
pub struct NodeStore {
    db: sled::Db<FANOUT>,
}

impl std::fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeStore").finish_non_exhaustive()
    }
}

impl NodeStore {
    /// Opens or creates the store in the folder `path`.
    ///
    /// # Errors
    /// When neither the store there nor a fresh one in its place can be opened.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let open = || sled::Config::new().path(path).cache_capacity_bytes(CACHE).open::<FANOUT>();
        let fail = |source| StoreError::Open { path: path.to_owned(), source };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(fail)?;
        }
        let db = match open() {
            Ok(db) => db,
            Err(error) => {
                let aside = path.with_extension(format!("damaged-{}", copepod_sys::clock::now().as_second()));
                tracing::error!(%error, path = %path.display(), aside = %aside.display(), "node store is damaged");
                std::fs::rename(path, &aside).map_err(fail)?;
                open().map_err(fail)?
            }
        };
        Ok(Self { db })
    }

    /// The records of one area.
    ///
    /// # Errors
    /// When sled cannot open the area.
    pub fn area(&self, name: &str) -> Result<Area, StoreError> {
        let tree =
            self.db.open_tree(name).map_err(|source| StoreError::Access { operation: "read", source })?;
        Ok(Area { tree })
    }
}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// One named area of the store: ordered keys and values.
#[derive(Clone)]
pub struct Area {
    tree: sled::Tree<FANOUT>,
}

impl std::fmt::Debug for Area {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Area").finish_non_exhaustive()
    }
}

impl Area {
    /// All records in key order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load(&self) -> Result<Vec<Pair>, StoreError> {
        self.tree
            .iter()
            .map(|pair| pair.map(|(k, v)| (k.to_vec(), v.to_vec())))
            .collect::<Result<_, _>>()
            .map_err(|source| StoreError::Access { operation: "read", source })
    }

    /// Writes and removes records (`None`), and returns once they are on disk. Blocks for the time of an fsync.
    ///
    /// # Errors
    /// When the store cannot be written; some of the changes may then be there.
    pub fn write(&self, changes: &[(Vec<u8>, Option<Vec<u8>>)]) -> Result<(), StoreError> {
        let apply = || -> std::io::Result<()> {
            for (key, value) in changes {
                match value {
                    Some(value) => drop(self.tree.insert(key, value.clone())?),
                    None => drop(self.tree.remove(key)?),
                }
            }
            self.tree.flush().map(drop)
        };
        apply().map_err(|source| StoreError::Access { operation: "write", source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node");
        {
            let area = NodeStore::open(&path).unwrap().area("a").unwrap();
            area.write(&[(b"k".to_vec(), Some(b"v".to_vec())), (b"x".to_vec(), Some(vec![1]))]).unwrap();
            area.write(&[(b"x".to_vec(), None)]).unwrap();
        }
        let area = NodeStore::open(&path).unwrap().area("a").unwrap();
        assert_eq!(area.load().unwrap(), vec![(b"k".to_vec(), b"v".to_vec())]);
    }

    #[test]
    fn a_file_in_its_place_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node");
        std::fs::write(&path, b"not a store").unwrap();
        assert!(NodeStore::open(&path).unwrap().area("a").unwrap().load().unwrap().is_empty());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
