//! An API server to replay on: alone on an etcd of its own, in a node of its own, with upstream's usual flags.

use copepod_client::ClientConfig;
use copepod_testkit::{Implementation, Node, Oracle, Part, Parts};

use crate::{ReplayError, Target};

/// A running server; gone with the value.
#[derive(Debug)]
pub struct Server {
    node: Node,
    /// Its administrator's way in.
    pub target: Target,
}

impl Server {
    /// Starts the API server of `who` and waits until it is ready. The calling program must have called
    /// [`copepod_testkit::dispatch`] first.
    ///
    /// # Errors
    /// Programs that are not built, a node that cannot be made, a server that does not become ready.
    pub fn start(name: &str, who: Implementation) -> Result<Self, ReplayError> {
        let mut node = Node::builder().name(name).start()?;
        let oracle = Oracle::start(&mut node, &Parts::default().with(Part::Apiserver, who))?;
        let address = node.forward(6443)?;
        let path = node.host_path("/root/replay.kubeconfig");
        let wrong = |source| ReplayError::File { path: path.clone(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(wrong)?;
        }
        std::fs::write(&path, oracle.kubeconfig(&format!("https://{address}"))).map_err(wrong)?;
        let target = Target::new(&ClientConfig::from_kubeconfig(&path)?)?;
        Ok(Self { node, target })
    }

    /// Ends the server and removes its node.
    ///
    /// # Errors
    /// Something of it stays behind.
    pub fn stop(self) -> Result<(), ReplayError> {
        Ok(self.node.stop()?)
    }
}
