#![allow(clippy::print_stderr, reason = "a test")]
//! M6: installed by the installer from a bundle, healed, rebooted, removed. In a bare node without an init that the
//! installer knows, so the plain background service; the other two kinds are tested in a virtual machine.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use copepod_testkit::{Node, Side};
use libtest_mimic::{Arguments, Failed, Trial};

type Check = Result<(), Failed>;
type NamedCheck = (&'static str, fn(&mut Node) -> Check);

/// What an installation could leave behind; each line that this prints is a trace.
const TRACES: &str = "ls -d /usr/local/lib/copepod /usr/local/bin/copepod /etc/systemd/system/copepod.service \
    /etc/copepod/* /etc/kubernetes/* /var/lib/copepod /var/lib/kubelet /run/copepod /var/log/pods 2>/dev/null; \
    ls /etc/cni/net.d /opt/cni/bin 2>/dev/null | grep -v :; \
    nft list tables; ip -o link | grep -Ev ' (lo|eth0)[@:]'; \
    find /sys/fs/cgroup -maxdepth 3 -name 'kubepods*'; \
    grep -E ' /(var/lib/kubelet|run/copepod|var/lib/copepod)' /proc/self/mountinfo; \
    ps -eo args | grep -E '[c]ontainerd|[c]opepod server|[e]tcd|[p]ause'; true";

fn main() -> ExitCode {
    copepod_testkit::dispatch();
    let mut arguments = Arguments::from_args();
    // One machine, whose state each check finds as the one before left it.
    arguments.test_threads = Some(1);
    let machine =
        if arguments.list { None } else { Some(Arc::new(Mutex::new(Node::builder().name("m6").start()))) };
    let checks: [NamedCheck; 6] = [
        ("a_damaged_bundle_changes_nothing", damaged),
        ("a_failed_installation_is_undone", undone),
        ("the_installer_waits_for_ready_and_names", installed),
        ("a_second_run_changes_nothing", second_run),
        ("every_killed_process_comes_back", killed),
        ("a_reboot_keeps_the_state_and_uninstall_leaves_nothing", rebooted_and_removed),
    ];
    let trials = checks.into_iter().map(|(name, check)| {
        let machine = machine.clone();
        Trial::test(format!("m6::{name}"), move || {
            let machine = machine.as_deref().ok_or("listing starts no node")?;
            let mut machine = machine.lock().map_err(|_| "an earlier check panicked")?;
            match &mut *machine {
                Ok(node) => check(node),
                Err(error) => Err(error.to_string().into()),
            }
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// The archive of the bundle: what `make bundle` made in this checkout.
fn archive() -> PathBuf {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../bundle/copepod-{arch}.tar.gz"))
}

fn sh(node: &Node, script: &str) -> Result<String, Failed> {
    let output = node
        .command(Side::Node, "/bin/sh")
        .args(["-c", script])
        .stdin(std::process::Stdio::null())
        .output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{script}: {}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr)).into())
}

fn install(node: &Node, environment: &str, bundle: &str) -> Result<String, Failed> {
    let installer = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../install.sh");
    sh(node, &format!("{environment} sh {} --bundle {bundle} 2>&1", installer.display()))
}

fn equal(actual: &str, expected: &str) -> Check {
    if actual == expected { Ok(()) } else { Err(format!("got {actual:?}, expected {expected:?}").into()) }
}

fn traces(node: &Node) -> Result<String, Failed> {
    sh(node, TRACES)
}

/// Waits up to two minutes; nothing announces what the checks wait for.
fn wait_for(node: &Node, script: &str, expected: &str) -> Check {
    let mut last = String::new();
    for _ in 0..240 {
        match sh(node, script) {
            Ok(text) if text == expected => return Ok(()),
            Ok(text) => last = text,
            Err(error) => last = error.message().unwrap_or_default().to_owned(),
        }
        std::thread::park_timeout(Duration::from_millis(500));
    }
    let log = sh(node, "tail -n 20 /var/log/copepod.log").unwrap_or_default();
    Err(format!("{script}: still {last:?}, expected {expected:?}\n{log}").into())
}

fn damaged(node: &mut Node) -> Check {
    equal(&traces(node)?, "")?;
    sh(node, &format!("cp {} /run/b.tar.gz; cp {0}.sha256 /run/b.tar.gz.sha256", archive().display()))?;
    sh(node, "printf x | dd of=/run/b.tar.gz bs=1 seek=100000 conv=notrunc 2>/dev/null")?;
    let refused = install(node, "", "/run/b.tar.gz").err().ok_or("a damaged bundle was installed")?;
    let why = refused.message().unwrap_or_default();
    if !why.contains("checksum") {
        return Err(format!("the refusal does not name the checksum: {why}").into());
    }
    sh(node, "rm /run/b.tar.gz*")?;
    equal(&traces(node)?, "")
}

fn undone(node: &mut Node) -> Check {
    let failed = install(node, "COPEPOD_WAIT=1", &archive().display().to_string());
    let failed = failed.err().ok_or("ready within a second?")?;
    let why = failed.message().unwrap_or_default();
    if !why.contains("not ready after 1 s") {
        return Err(format!("it does not say why: {why}").into());
    }
    equal(&traces(node)?, "")
}

fn installed(node: &mut Node) -> Check {
    let said = install(node, "", &archive().display().to_string())?;
    eprintln!("{said}");
    sh(node, "copepod status")?;
    sh(
        node,
        "copepod kubectl create deployment web --image=docker.io/library/busybox:1.37 --replicas=2 -- sleep 3600",
    )?;
    wait_for(node, "copepod kubectl get deployment web -o jsonpath={.status.readyReplicas}", "2")
}

fn second_run(node: &mut Node) -> Check {
    let state = "find /usr/local/lib/copepod /etc -newer /run/mark; pgrep -f '[c]opepod server'";
    sh(node, "touch /run/mark")?;
    let before = sh(node, state)?;
    let said = install(node, "", &archive().display().to_string())?;
    if !said.contains("nothing was changed") {
        return Err(format!("it says: {said}").into());
    }
    equal(&sh(node, state)?, &before)
}

fn killed(node: &mut Node) -> Check {
    // The brackets keep the pattern from matching the shell that it stands in.
    for pattern in
        ["[c]opepod server", "[b]in/containerd --config", "^etcd", "^kube-apiserver", "^kube-scheduler"]
    {
        sh(node, &format!("pkill -KILL -f '{pattern}'"))?;
        wait_for(node, "copepod status >/dev/null && echo well", "well")?;
    }
    wait_for(node, "copepod kubectl get deployment web -o jsonpath={.status.readyReplicas}", "2")
}

fn rebooted_and_removed(node: &mut Node) -> Check {
    let uid = "copepod kubectl get deployment web -o jsonpath={.metadata.uid}";
    let before = sh(node, uid)?;
    node.reboot()?;
    // Nobody starts a background service at boot; this is what the machine's own start would call.
    sh(node, "/usr/local/lib/copepod/copepod-background start")?;
    wait_for(node, "copepod status >/dev/null && echo well", "well")?;
    equal(&sh(node, uid)?, &before)?;
    wait_for(node, "copepod kubectl get deployment web -o jsonpath={.status.readyReplicas}", "2")?;
    sh(node, "copepod uninstall")?;
    equal(&traces(node)?, "")
}
