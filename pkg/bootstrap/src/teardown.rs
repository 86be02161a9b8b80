//! The way back: stopping pods and the runtime, and removing every trace of a node.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use copepod_config::Layout;
use copepod_cri::{CriClient, RuntimeService};
use copepod_sys::{cgroup, mount, process};
use tokio::time::{sleep, timeout};

use crate::cni::{ALIASES, CONFLIST, PLUGIN};
use crate::error::{BootstrapError, file};

/// How long one call to the runtime may take.
const CALL: Duration = Duration::from_secs(60);
/// How long the runtime may take to end after being asked.
const GRACE: Duration = Duration::from_secs(10);
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// Stops and removes every pod that Kubernetes made. The addresses service must be running for the CNI plugin.
///
/// # Errors
/// The runtime's first refusal.
pub async fn stop_pods(layout: &Layout) -> Result<usize, BootstrapError> {
    let endpoint = format!("unix://{}", layout.containerd_socket().display());
    let fail = |source| BootstrapError::Runtime { action: "stop pods", source };
    let runtime = CriClient::new(&endpoint, CALL).map_err(fail)?;
    let sandboxes = runtime.list_pod_sandboxes(None).await.map_err(fail)?;
    for sandbox in &sandboxes {
        runtime.stop_pod_sandbox(&sandbox.id).await.map_err(fail)?;
        runtime.remove_pod_sandbox(&sandbox.id).await.map_err(fail)?;
    }
    Ok(sandboxes.len())
}

/// Asks a process to end, waits, and kills it when it does not.
///
/// # Errors
/// The kernel refuses to watch or signal it.
pub async fn end_process(pid: i32, grace: Duration) -> Result<(), BootstrapError> {
    let fail = |source| BootstrapError::Process { pid, source };
    if !process::exists(pid) {
        return Ok(());
    }
    process::kill(pid, SIGTERM).map_err(fail)?;
    match timeout(grace, process::exited(pid)).await {
        Ok(ended) => ended.map_err(fail),
        Err(_) => {
            process::kill(pid, SIGKILL).map_err(fail)?;
            process::exited(pid).await.map_err(fail)
        }
    }
}

/// Ends containerd and whatever shim of its pods is left.
///
/// # Errors
/// A process that cannot be ended.
pub async fn stop_runtime(layout: &Layout) -> Result<(), BootstrapError> {
    let pid = fs::read_to_string(layout.containerd_pid()).ok().and_then(|text| text.trim().parse().ok());
    if let Some(pid) = pid {
        end_process(pid, GRACE).await?;
    }
    for pid in shims(layout) {
        end_process(pid, GRACE).await?;
    }
    Ok(())
}

/// Shims whose command line names our runtime's socket.
fn shims(layout: &Layout) -> Vec<i32> {
    let socket = layout.containerd_socket();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = command.split(|b| *b == 0);
        let shim = words.next().is_some_and(|program| program.ends_with(b"containerd-shim-runc-v2"));
        shim && words.any(|word| word == socket.as_os_str().as_encoded_bytes())
    })
    .collect()
}

/// Folders that hold nothing but a node's own things.
fn owned(layout: &Layout) -> [PathBuf; 9] {
    [
        layout.data(),
        layout.run(),
        layout.kubelet(),
        layout.kubernetes(),
        layout.at("etc/copepod"),
        layout.pod_logs(),
        layout.container_logs(),
        layout.logs(),
        layout.at("var/lib/cni"),
    ]
}

/// Removes mounts, cgroups, rules' leftovers on disk and every folder of the node. Everything must be stopped.
///
/// # Errors
/// The first thing that cannot be removed; what was removed before stays removed.
pub async fn remove_traces(layout: &Layout) -> Result<(), BootstrapError> {
    let folders = owned(layout);
    unmount_below(&folders)?;
    remove_cgroups().await?;
    for folder in &folders {
        if folder.symlink_metadata().is_ok() {
            fs::remove_dir_all(folder).map_err(file("remove", folder))?;
        }
    }
    let plugins = ALIASES.iter().chain([&PLUGIN]).map(|name| layout.cni_bin().join(name));
    for path in plugins.chain([layout.cni_config().join(CONFLIST)]) {
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path).map_err(file("remove", &path))?;
        }
    }
    // Folders of others' names go only when they are empty.
    for folder in [layout.cni_config(), layout.at("etc/cni"), layout.cni_bin(), layout.at("opt/cni")] {
        drop(fs::remove_dir(folder));
    }
    Ok(())
}

fn unmount_below(folders: &[PathBuf]) -> Result<(), BootstrapError> {
    let table = mount::table().map_err(|source| BootstrapError::Process { pid: 0, source })?;
    let ours =
        table.into_iter().map(|m| m.mount_point).filter(|point| folders.iter().any(|f| point.starts_with(f)));
    let deepest_first: BTreeSet<(std::cmp::Reverse<usize>, PathBuf)> =
        ours.map(|point| (std::cmp::Reverse(point.components().count()), point)).collect();
    for (_, point) in deepest_first {
        mount::detach(&point).map_err(|e| BootstrapError::File {
            action: "unmount",
            path: point,
            source: std::io::Error::other(e),
        })?;
    }
    Ok(())
}

/// `kubepods` and all below it, in every hierarchy. The kernel empties a cgroup a moment after its last process.
async fn remove_cgroups() -> Result<(), BootstrapError> {
    let fail = |source| BootstrapError::Process { pid: 0, source };
    let group = cgroup::Group::new(cgroup::mounted().map_err(fail)?, "kubepods");
    for _ in 0..20 {
        if group.processes().is_empty() {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    group.remove().map_err(fail)
}
