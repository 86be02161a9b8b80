//! Webhooks and an aggregated API server behind ours, with the test programs of upstream's suite on the far side; the
//! scenario is `tests/e2e/outbound/run.sh`.

#[test]
fn outbound() {
    let programs =
        [("ETCD", "etcd"), ("KUBECTL", "kubectl"), ("AGNHOST", "agnhost"), ("SAMPLE", "sample-apiserver")];
    copepod_e2e::script::run("outbound", "APISERVER", &programs, false);
}
