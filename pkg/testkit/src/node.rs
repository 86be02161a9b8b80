//! The caller's side: making a node, running things in it, rebooting it, removing it.

mod builder;
pub(crate) mod control;
mod service;

use std::ffi::OsStr;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use copepod_config::Layout;
use copepod_sys::namespace;

use crate::TestkitError;
use crate::forward::Forward;
use crate::spec::{EnterSpec, NodeSpec, Reply, Request, ServiceSpec};
use crate::stage::{LAN_NAMESPACE, LEAF, Stage};

pub use builder::Builder;
pub use service::Service;

/// The node's address, unless the builder was told another.
pub const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 2);
/// The outside client's address, unless the builder was told another.
pub const LAN_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);

/// `PATH` inside the node.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Where programs inside the node keep their caches; a host's home directory must not fill with them.
const HOME: &str = "/run";

/// Where a command stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// On the node itself.
    Node,
    /// In the neighbour's network namespace: the outside client.
    Lan,
}

/// A running node. Dropping it removes it, as [`Node::stop`] does.
#[derive(Debug)]
pub struct Node {
    spec: NodeSpec,
    control: Option<UnixStream>,
    keeper: Child,
    init: i32,
    forwards: Vec<Forward>,
    enabled: Vec<ServiceSpec>,
}

impl Node {
    /// Begins to describe a node.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn start(spec: NodeSpec) -> Result<Self, TestkitError> {
        let (control, theirs) = UnixStream::pair().map_err(TestkitError::Control)?;
        let keeper = Stage::Keeper
            .command(&spec)
            .stdin(std::process::Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .stdout(std::process::Stdio::null())
            .spawn()
            .map_err(|source| TestkitError::Start { program: "keeper".to_string(), source })?;
        let mut node =
            Self { spec, control: Some(control), keeper, init: 0, forwards: Vec::new(), enabled: Vec::new() };
        node.wait_until_ready()?;
        Ok(node)
    }

    /// Reads until this life of the node is ready.
    fn wait_until_ready(&mut self) -> Result<(), TestkitError> {
        let (mut born, mut ready) = (false, false);
        while !(born && ready) {
            match self.receive()? {
                Reply::Born { init } => (self.init, born) = (init, true),
                Reply::Ready => ready = true,
                Reply::Failed(text) => return Err(TestkitError::Init(text)),
                Reply::Done | Reply::Pid(_) => {}
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Reply, TestkitError> {
        let control = self.control.as_mut().ok_or(TestkitError::Gone)?;
        control::receive(control)?.ok_or(TestkitError::Gone)
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, TestkitError> {
        let control = self.control.as_mut().ok_or(TestkitError::Gone)?;
        control::send(control, request)?;
        match self.receive()? {
            Reply::Failed(text) => Err(TestkitError::Init(text)),
            reply => Ok(reply),
        }
    }

    /// The name of the node, which is its host name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The node's address as the outside client sees it.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.spec.node_address
    }

    /// Where everything lies, as seen from inside: at root `/`.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout::new("/")
    }

    /// The node's file `path` as it can be reached from outside, in this life of the node.
    #[must_use]
    pub fn host_path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        PathBuf::from(format!("/proc/{}/root", self.init)).join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Init's process id as the host sees it; another one after a reboot.
    #[must_use]
    pub fn init_pid(&self) -> i32 {
        self.init
    }

    /// A command that runs `program` on the node or beside it. Add arguments, environment and streams as usual; its
    /// exit code and its answer to SIGINT and SIGTERM are the program's, and killing it kills the program.
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        let cgroup = format!("copepod-{}/{LEAF}", self.spec.id);
        let mut command =
            Stage::Enter.command(&EnterSpec { init: self.init, cgroup, lan: side == Side::Lan });
        command.arg(program).env("PATH", PATH).env("HOME", HOME);
        command
    }

    /// Runs a program on the node to its end.
    ///
    /// # Errors
    /// The program could not be started; its own failure is in the output's status.
    pub fn exec(&self, argv: &[&str]) -> Result<Output, TestkitError> {
        self.run(Side::Node, argv)
    }

    /// Runs a program in the outside client's place to its end.
    ///
    /// # Errors
    /// The program could not be started; its own failure is in the output's status.
    pub fn lan_exec(&self, argv: &[&str]) -> Result<Output, TestkitError> {
        self.run(Side::Lan, argv)
    }

    fn run(&self, side: Side, argv: &[&str]) -> Result<Output, TestkitError> {
        let (program, args) =
            argv.split_first().ok_or_else(|| TestkitError::Init("no program".to_string()))?;
        let start = |source| TestkitError::Start { program: (*program).to_string(), source };
        self.command(side, program).args(args).stdin(std::process::Stdio::null()).output().map_err(start)
    }

    /// Starts a service on the node, in place of the one of the same name. Init restarts it when it dies, if it asks
    /// for that, and [`Node::reboot`] starts it again.
    ///
    /// # Errors
    /// The program could not be started.
    pub fn start_service(&mut self, service: Service) -> Result<(), TestkitError> {
        let spec = service.into_spec();
        self.enabled.retain(|s| s.name != spec.name);
        self.ask(&Request::Start(spec.clone()))?;
        self.enabled.push(spec);
        Ok(())
    }

    /// Kills a service for good.
    ///
    /// # Errors
    /// The node is gone.
    pub fn stop_service(&mut self, name: &str) -> Result<(), TestkitError> {
        self.enabled.retain(|s| s.name != name);
        self.ask(&Request::Stop { name: name.to_string() }).map(|_| ())
    }

    /// The process id of a service, as seen inside the node; `None` while it is down.
    ///
    /// # Errors
    /// The node is gone.
    pub fn service_pid(&mut self, name: &str) -> Result<Option<i32>, TestkitError> {
        match self.ask(&Request::Pid { name: name.to_string() })? {
            Reply::Pid(pid) => Ok(pid),
            _ => Ok(None),
        }
    }

    /// Plays a power cut and a boot: every process, namespace, mount, link, rule, cgroup and everything in `/run` is
    /// gone, files elsewhere are as they were; then services start again and forwards work again.
    ///
    /// # Errors
    /// The node did not come back.
    pub fn reboot(&mut self) -> Result<(), TestkitError> {
        self.ask(&Request::Reboot)?;
        self.wait_until_ready()?;
        for spec in self.enabled.clone() {
            self.ask(&Request::Start(spec))?;
        }
        let net = self.net_namespace();
        self.forwards.iter_mut().try_for_each(|forward| forward.follow(&net))
    }

    /// Makes `port` on the node's loopback reachable at a loopback port of the caller, chosen by the system.
    ///
    /// # Errors
    /// No port is free, or the node is gone.
    pub fn forward(&mut self, port: u16) -> Result<SocketAddr, TestkitError> {
        self.forward_from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), port)
    }

    /// Makes `port` on the node's loopback reachable at `local`, an address of the caller.
    ///
    /// # Errors
    /// The local port is taken, or the node is gone.
    pub fn forward_from(&mut self, local: SocketAddr, port: u16) -> Result<SocketAddr, TestkitError> {
        let forward = Forward::start(local, port, &self.net_namespace())?;
        let address = forward.local();
        self.forwards.push(forward);
        Ok(address)
    }

    /// A listening socket of the node's network or of its neighbour's, for the caller to serve on. The address need not
    /// exist on the caller's side.
    ///
    /// # Errors
    /// The address is taken, or the node is gone.
    pub fn listen(&self, side: Side, address: SocketAddr) -> Result<TcpListener, TestkitError> {
        let path = match side {
            Side::Node => self.net_namespace(),
            Side::Lan => self.host_path(LAN_NAMESPACE),
        };
        let namespace = namespace::open(&path)?;
        // A socket belongs to the namespace of the thread that makes it.
        namespace::run_in_net(namespace, move || TcpListener::bind(address))?.map_err(TestkitError::Control)
    }

    /// Whether the process `pid`, as the host counts, is one of this node's: init, a service or in a container.
    #[must_use]
    pub fn owns(&self, pid: i32) -> bool {
        let group = format!("/copepod-{}/", self.spec.id);
        std::fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(&group))
    }

    fn net_namespace(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.init))
    }

    /// Ends the node and waits until every trace of it is gone.
    ///
    /// # Errors
    /// The keeper could not remove something; it says on standard error what.
    pub fn stop(mut self) -> Result<(), TestkitError> {
        let status = self.end().map_err(TestkitError::Control)?;
        if status.success() {
            Ok(())
        } else {
            Err(TestkitError::Init(format!("the keeper ended with {status}")))
        }
    }

    fn end(&mut self) -> io::Result<std::process::ExitStatus> {
        self.forwards.clear();
        self.control = None;
        self.keeper.wait()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(node = self.spec.name, %error, "the node's keeper cannot be waited for");
        }
    }
}
