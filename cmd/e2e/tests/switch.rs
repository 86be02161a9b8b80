//! Our API server and upstream's take turns on one etcd; the scenario is `tests/e2e/switch/run.sh`.

#[test]
fn switch() {
    let programs = [("UPSTREAM", "kube-apiserver"), ("ETCD", "etcd"), ("KUBECTL", "kubectl")];
    copepod_e2e::script::run("switch", "OURS", &programs, true);
}
