//! M1: the API server on etcd, alone, driven by kubectl; then upstream's controller-manager and scheduler on it.
//!
//! The scenario is `tests/e2e/m1/run.sh`, which runs on upstream's kube-apiserver as well: `M1_APISERVER` names
//! another server than the bundle's.

#[test]
fn m1() {
    let programs = [
        ("ETCD", "etcd"),
        ("KUBECTL", "kubectl"),
        ("KCM", "kube-controller-manager"),
        ("SCHEDULER", "kube-scheduler"),
    ];
    copepod_e2e::script::run("m1", "APISERVER", &programs, true);
}
