//! M1: the API server on etcd, alone, driven by kubectl; then upstream's controller-manager and scheduler on it.
//!
//! The scenario is `tests/e2e/m1/run.sh`, which runs on upstream's kube-apiserver as well: `M1_APISERVER` names
//! another server than the bundle's.

use std::path::{Path, PathBuf};

/// The folder with the programs of the newest build of one of upstream's tools.
fn upstream(tool: &str) -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache/copepod");
    let cache = std::env::var_os("COPEPOD_CACHE").map_or_else(home, PathBuf::from).join("upstream");
    let entries = std::fs::read_dir(&cache);
    let entries =
        entries.unwrap_or_else(|e| panic!("{}: {e}; `make upstream oracle` builds it", cache.display()));
    let named = |name: &str| name.starts_with(&format!("{tool}-v"));
    let mut found: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| named(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path().join("bin"))
        .collect();
    found.sort();
    found
        .pop()
        .unwrap_or_else(|| panic!("no {tool} in {}; `make upstream oracle` builds it", cache.display()))
}

#[test]
fn m1() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bundle =
        std::env::var_os("COPEPOD_BUNDLE").map_or_else(|| root.join("bundle/current"), PathBuf::from);
    let server = std::env::var("M1_APISERVER")
        .unwrap_or_else(|_| format!("{} apiserver", bundle.join("bin/copepod").display()));
    let oracle = upstream("oracle");
    let status = copepod_sys::command("bash")
        .arg(root.join("tests/e2e/m1/run.sh"))
        .env("APISERVER", server)
        .env("ETCD", upstream("etcd").join("etcd"))
        .env("KUBECTL", upstream("kubectl").join("kubectl"))
        .env("KCM", oracle.join("kube-controller-manager"))
        .env("SCHEDULER", oracle.join("kube-scheduler"))
        .status()
        .expect("bash starts");
    assert!(status.success(), "a check failed; its line above says which");
}
