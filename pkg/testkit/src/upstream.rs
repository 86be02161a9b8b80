//! Where upstream's programs are that `cargo xtask upstream build` has finished.

use std::path::PathBuf;

use crate::TestkitError;

/// The program `name` (`etcd`, `containerd`, `kube-apiserver`, …) of the pinned version.
///
/// # Errors
/// It has not been built on this machine.
pub fn upstream(name: &str) -> Result<PathBuf, TestkitError> {
    let not_built = || TestkitError::NotBuilt(name.to_string());
    let ready = cache().ok_or_else(not_built)?.join("upstream/READY");
    let list = std::fs::read_to_string(ready).map_err(|_| not_built())?;
    find(&list, name).ok_or_else(not_built)
}

fn find(list: &str, name: &str) -> Option<PathBuf> {
    list.lines().map(PathBuf::from).find(|path| path.file_name().is_some_and(|file| file == name))
}

fn cache() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/copepod"));
    std::env::var_os("COPEPOD_CACHE").map(PathBuf::from).or_else(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_names() {
        let list = "/c/etcd-v3/bin/etcd\n/c/etcd-v3/bin/etcdctl\n";
        assert_eq!(find(list, "etcdctl").unwrap(), PathBuf::from("/c/etcd-v3/bin/etcdctl"));
        assert_eq!(find(list, "ctl"), None);
    }
}
