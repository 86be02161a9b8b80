//! A program that the node's init runs.

use std::path::PathBuf;

use super::{HOME, PATH};
use crate::spec::ServiceSpec;

/// Describes a service; hand it to [`super::Node::start_service`].
#[derive(Clone, Debug)]
pub struct Service(ServiceSpec);

impl Service {
    /// A service `name` that runs `program`, once, logging to `/var/log/<name>.log` inside the node.
    pub fn new(name: impl Into<String>, program: impl AsRef<std::path::Path>) -> Self {
        let name = name.into();
        Self(ServiceSpec {
            argv: vec![program.as_ref().to_string_lossy().into_owned()],
            env: vec![("PATH".to_string(), PATH.to_string()), ("HOME".to_string(), HOME.to_string())],
            log: PathBuf::from(format!("/var/log/{name}.log")),
            restart: false,
            name,
        })
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.0.argv.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.env.push((key.into(), value.into()));
        self
    }

    /// Logs to another file inside the node.
    #[must_use]
    pub fn log(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.log = path.into();
        self
    }

    /// Starts it again whenever it ends.
    #[must_use]
    pub fn restart(mut self, restart: bool) -> Self {
        self.0.restart = restart;
        self
    }

    pub(crate) fn into_spec(self) -> ServiceSpec {
        self.0
    }
}
