//! Static pods from files, with no API server at all.

use std::time::Duration;

use libtest_mimic::Failed;

use crate::bench::Bench;

fn pod(name: &str, script: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: kube-system
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 2
  containers:
  - name: {name}
    image: busybox:1
    command: ["/bin/sh", "-c", "{script}"]
"#
    )
}

fn check(condition: bool, what: impl Into<String>) -> Result<(), Failed> {
    if condition { Ok(()) } else { Err(what.into().into()) }
}

/// Two pods run, log, restart with back-off, follow edits and removals; a broken manifest harms
/// nobody; a new kubelet adopts what runs.
pub fn static_pods() -> Result<(), Failed> {
    let mut bench = Bench::start()?;
    bench.manifest("alpha.yaml", &pod("alpha", "echo hello; exec sleep 10000"))?;
    bench.manifest("beta.yaml", &pod("beta", "exec sleep 10000"))?;
    bench.start_kubelet(&[])?;
    bench.eventually("both pods run", || {
        bench.running("alpha").len() == 1 && bench.running("beta").len() == 1
    })?;
    logs(&bench)?;
    labels(&bench)?;
    broken_manifest(&bench)?;
    restart(&bench)?;
    adoption(&mut bench)?;
    runtime_restart(&mut bench)?;
    edit_and_removal(&bench)?;
    bench.node.stop()?;
    Ok(())
}

fn logs(bench: &Bench) -> Result<(), Failed> {
    let line = bench.sh("cat /var/log/pods/kube-system_alpha-node1_*/alpha/0.log")?;
    let words: Vec<_> = line.splitn(4, ' ').collect();
    check(words.len() == 4 && words[1..] == ["stdout", "F", "hello"], format!("log line {line:?}"))?;
    bench.sh("cat /var/log/containers/alpha-node1_kube-system_alpha-*.log").map(|_| ())
}

fn labels(bench: &Bench) -> Result<(), Failed> {
    let inspect = bench.crictl(&["ps", "--name", "^alpha$", "-o", "json"])?;
    for part in [
        "\"io.kubernetes.pod.name\": \"alpha-node1\"",
        "\"io.kubernetes.pod.namespace\": \"kube-system\"",
        "\"io.kubernetes.container.name\": \"alpha\"",
        "\"io.kubernetes.container.restartCount\": \"0\"",
        "\"io.kubernetes.container.terminationMessagePath\": \"/dev/termination-log\"",
    ] {
        check(inspect.contains(part), format!("{part} is not in {inspect}"))?;
    }
    Ok(())
}

fn broken_manifest(bench: &Bench) -> Result<(), Failed> {
    let before = bench.running("alpha");
    bench.manifest("broken.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: [oops\n")?;
    bench.eventually("the broken manifest is named with its line", || {
        bench.kubelet_log().contains("/etc/kubernetes/manifests/broken.yaml:")
    })?;
    check(bench.running("alpha") == before, "the broken manifest disturbed another pod")?;
    bench.sh("rm /etc/kubernetes/manifests/broken.yaml").map(|_| ())
}

/// A killed container restarts at once the first time and is held back after that.
fn restart(bench: &Bench) -> Result<(), Failed> {
    let kill = || -> Result<String, Failed> {
        let id = bench.running("beta").pop().unwrap_or_default();
        bench.crictl(&["stop", "-t", "0", &id])?;
        Ok(id)
    };
    let first = kill()?;
    bench.eventually("beta restarts", || bench.running("beta").iter().any(|id| *id != first))?;
    let second = kill()?;
    bench.eventually("the second restart is held back", || {
        bench
            .kubelet_log()
            .contains("Back-off restarting failed container beta in pod beta-node1_kube-system(")
    })?;
    check(bench.running("beta").is_empty(), "beta runs in spite of its back-off")?;
    bench.within(Duration::from_secs(15), "beta restarts after its back-off", || {
        bench.running("beta").iter().any(|id| *id != second)
    })
}

fn adoption(bench: &mut Bench) -> Result<(), Failed> {
    let before = (bench.running("alpha"), bench.running("beta"));
    bench.node.stop_service("kubelet")?;
    bench.start_kubelet(&[])?;
    std::thread::park_timeout(Duration::from_secs(3));
    check((bench.running("alpha"), bench.running("beta")) == before, "the new kubelet restarted a container")
}

/// containerd dies and comes back: containers live on, and the next steps show that the kubelet follows again.
fn runtime_restart(bench: &mut Bench) -> Result<(), Failed> {
    let before = (bench.running("alpha"), bench.running("beta"));
    let pid = bench.node.service_pid("containerd")?.unwrap_or_default();
    bench.sh(&format!("kill -9 {pid}"))?;
    bench.eventually("containerd answers again", || bench.crictl(&["version"]).is_ok())?;
    check((bench.running("alpha"), bench.running("beta")) == before, "a container did not outlive containerd")
}

fn edit_and_removal(bench: &Bench) -> Result<(), Failed> {
    let before = bench.running("alpha");
    bench.manifest("alpha.yaml", &pod("alpha", "echo edited; exec sleep 10000"))?;
    bench.within(Duration::from_secs(10), "the edited pod replaces the old one", || {
        let now = bench.running("alpha");
        now.len() == 1 && now != before
    })?;
    bench.eventually("the edited pod logs", || {
        bench
            .sh("cat /var/log/pods/kube-system_alpha-node1_*/alpha/0.log")
            .is_ok_and(|t| t.contains("edited"))
    })?;
    bench.sh("rm /etc/kubernetes/manifests/beta.yaml")?;
    bench.within(Duration::from_secs(10), "the removed pod is gone without a trace", || {
        bench.crictl(&["ps", "-aq", "--name", "^beta$"]).is_ok_and(|t| t.is_empty())
            && bench.sh("ls /var/log/pods").is_ok_and(|t| !t.contains("beta"))
            && bench.crictl(&["pods", "-q", "--name", "beta-node1"]).is_ok_and(|t| t.is_empty())
    })
}
