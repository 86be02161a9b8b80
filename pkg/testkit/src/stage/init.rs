//! The first process inside: makes the node's world, then serves the caller, reaps orphans and restarts services.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use copepod_sys::namespace::{self, Namespace};
use copepod_sys::{cgroup, process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::links::Links;
use super::services::Services;
use super::{keeper, mounts};
use crate::TestkitError;
use crate::node::control;
use crate::spec::{EXIT_FAILED, EXIT_REBOOT, NodeSpec, Reply, Request};

/// The cgroup of init and of everything that is no container. Version 2 allows processes only in leaves.
pub(crate) const LEAF: &str = "init";

/// The node's link to the outside client, and the other end of it.
const NODE_LINK: &str = "eth0";
const LAN_LINK: &str = "lan0";

/// Makes the node and serves until the caller is gone (exit code 0) or wants a reboot.
pub(super) fn run(spec: &NodeSpec) -> Result<i32, TestkitError> {
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(TestkitError::Control)?;
    let mut socket = UnixStream::from(socket);
    if let Err(error) = make(spec) {
        control::send(&mut socket, &Reply::Failed(error.chain()))?;
        return Ok(EXIT_FAILED);
    }
    control::send(&mut socket, &Reply::Ready)?;
    socket.set_nonblocking(true).map_err(TestkitError::Control)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(TestkitError::Control)?;
    runtime.block_on(serve(socket))
}

/// Namespaces, mounts and links, in the one order that works.
fn make(spec: &NodeSpec) -> Result<(), TestkitError> {
    let hierarchies = cgroup::mounted()?;
    let group = keeper::group(spec)?;
    // The group of the moment of unsharing is the namespace's root; containers' groups go beside the leaf.
    group.attach(0)?;
    namespace::unshare(&[Namespace::Cgroup])?;
    let leaf = group.child(LEAF);
    leaf.create()?;
    leaf.attach(0)?;

    namespace::unshare(&[Namespace::Net])?;
    let lan = namespace::current_net()?;
    let lan_links = Links::open()?;
    namespace::unshare(&[Namespace::Net, Namespace::Mount, Namespace::Uts, Namespace::Ipc])?;
    process::set_host_name(&spec.name)?;
    mounts::apply(spec, &mounts::plan(spec, &hierarchies, Path::exists))?;
    std::fs::create_dir_all("/run/netns").map_err(|e| TestkitError::file("create", "/run/netns", e))?;
    namespace::bind_net(lan.as_fd(), Path::new(mounts::LAN_NAMESPACE))?;

    let node_links = Links::open()?;
    node_links.up("lo")?;
    node_links.add_veth(NODE_LINK, LAN_LINK, lan.as_raw_fd())?;
    lan_links.up("lo")?;
    lan_links.up(LAN_LINK)?;
    node_links.up(NODE_LINK)?;
    node_links.add_address(NODE_LINK, spec.node_address, spec.prefix)?;
    node_links.add_default_route(spec.lan_address)?;
    lan_links.add_address(LAN_LINK, spec.lan_address, spec.prefix)?;
    Ok(())
}

async fn serve(socket: UnixStream) -> Result<i32, TestkitError> {
    let mut socket = tokio::net::UnixStream::from_std(socket).map_err(TestkitError::Control)?;
    // Borrowed halves: an owned one shuts the socket down when dropped, and the next life needs it.
    let (requests, mut replies) = socket.split();
    let mut requests = BufReader::new(requests).lines();
    let mut children = signal(SignalKind::child()).map_err(TestkitError::Control)?;
    let mut services = Services::default();
    loop {
        let due = services.next_due();
        let restart = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            line = requests.next_line() => {
                let Ok(Some(line)) = line else { return Ok(0) };
                let reply = answer(&mut services, &line);
                let mut text = serde_json::to_vec(&reply.0).map_err(|e| TestkitError::Control(e.into()))?;
                text.push(b'\n');
                replies.write_all(&text).await.map_err(TestkitError::Control)?;
                if reply.1 == Next::Reboot {
                    return Ok(EXIT_REBOOT);
                }
            }
            _ = children.recv() => {
                while let Some(exit) = process::reap() {
                    services.ended(exit, Instant::now());
                }
            }
            () = restart => services.start_due(Instant::now()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    Reboot,
}

fn answer(services: &mut Services, line: &str) -> (Reply, Next) {
    let done = |result: Result<(), TestkitError>| match result {
        Ok(()) => Reply::Done,
        Err(error) => Reply::Failed(error.chain()),
    };
    match serde_json::from_str(line) {
        Ok(Request::Start(spec)) => (done(services.start(spec)), Next::GoOn),
        Ok(Request::Stop { name }) => (done(services.stop(&name)), Next::GoOn),
        Ok(Request::Pid { name }) => (Reply::Pid(services.pid(&name)), Next::GoOn),
        Ok(Request::Reboot) => (Reply::Done, Next::Reboot),
        Err(error) => (Reply::Failed(error.to_string()), Next::GoOn),
    }
}
