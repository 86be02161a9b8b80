//! Importing into a real containerd, in a node of its own; needs root and upstream's programs.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use copepod_image::{Archive, Entry, Importer, Recipe};
use copepod_testkit::{Node, Service, dispatch, upstream};
use libtest_mimic::{Arguments, Failed, Trial};

const NAME: &str = "registry.test/tools/busybox:1";
const SOCKET: &str = "/run/containerd/containerd.sock";

fn main() {
    dispatch();
    let trials =
        vec![Trial::test("an_imported_image_runs_is_pinned_and_survives_garbage_collection", imported_image)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn recipe() -> Recipe {
    Recipe {
        name: NAME.to_string(),
        architecture: if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }.to_string(),
        entries: vec![
            ("/bin/busybox".to_string(), Entry::File { from: "/bin/busybox".into(), mode: 0o755 }),
            ("/bin/sh".to_string(), Entry::Link { target: "busybox".to_string() }),
        ],
        entrypoint: vec!["/bin/sh".to_string()],
        environment: vec!["PATH=/bin".to_string()],
        ..Recipe::default()
    }
}

/// A node with containerd, at upstream's default paths.
fn node() -> Result<Node, Failed> {
    let mut node = Node::builder().start()?;
    let containerd = upstream("containerd")?;
    let bin = containerd.parent().ok_or("no folder")?.display().to_string();
    let runc = upstream("runc")?.parent().ok_or("no folder")?.display().to_string();
    let path = format!("{bin}:{runc}:/usr/sbin:/usr/bin:/sbin:/bin");
    node.start_service(Service::new("containerd", containerd).env("PATH", path))?;
    let socket = node.host_path(SOCKET);
    for _ in 0..100 {
        if std::os::unix::net::UnixStream::connect(&socket).is_ok() {
            return Ok(node);
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    let log = std::fs::read_to_string(node.host_path("/var/log/containerd.log"))?;
    Err(format!("containerd does not listen:\n{log}").into())
}

fn ctr(node: &Node, args: &[&str]) -> Result<String, Failed> {
    let ctr = upstream("ctr")?.display().to_string();
    let output: Output = node.exec(&[&[ctr.as_str(), "-n", "k8s.io"], args].concat())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr).into()) }
}

async fn import(socket: &Path, archives: &Path) -> Result<(), Failed> {
    let importer = Importer::connect(socket).await?;
    let imported = importer.ensure_present(&[NAME], archives).await?;
    assert_eq!(imported, [NAME]);
    assert!(
        importer.ensure_present(&[NAME], archives).await?.is_empty(),
        "what is there is not imported again"
    );
    let missing = importer.ensure_present(&["registry.test/none:1"], archives).await.unwrap_err().to_string();
    assert!(missing.contains("registry.test/none:1"), "{missing}");
    // Again and on purpose: names and pins are renewed, nothing fails.
    importer.import(&Archive::open(archives.join("busybox.tar"))?).await?;
    Ok(())
}

fn imported_image() -> Result<(), Failed> {
    let archives = tempfile::tempdir()?;
    recipe().build(&archives.path().join("busybox.tar"))?;
    let node = node()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(import(&node.host_path(SOCKET), archives.path()))?;
    // Removing an unrelated image with --sync runs the garbage collector to its end.
    ctr(&node, &["images", "tag", NAME, "registry.test/other:1"])?;
    ctr(&node, &["images", "rm", "--sync", "registry.test/other:1"])?;
    let hello = ctr(&node, &["run", "--rm", "--cgroup", "", NAME, "t1", "/bin/busybox", "echo", "hello"])?;
    assert_eq!(hello, "hello");
    let listed = ctr(&node, &["images", "ls"])?;
    assert!(listed.contains("io.cri-containerd.pinned=pinned"), "{listed}");
    let crictl = upstream("crictl")?.display().to_string();
    let seen =
        node.exec(&[&crictl, "--runtime-endpoint", &format!("unix://{SOCKET}"), "images", "-o", "json"])?;
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.contains(NAME) && seen.contains("\"pinned\": true"), "{seen}");
    node.stop()?;
    Ok(())
}
