//! A registry that serves archives: as much of OCI's distribution API as a pull needs, over plain HTTP.
//!
//! It answers as a mirror for any registry (containerd says in `ns` whose image it wants) and under its own address.
//! What it has not got is a 404 at once, so a node that knows no other registry never waits for one.

mod answer;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use base64::Engine as _;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::archive::Blob;
use crate::{Archive, ImageError};

/// Images by the names under which they are asked for.
#[derive(Debug, Default)]
pub struct Registry {
    archives: Vec<Archive>,
    /// The archive and the manifest of each name.
    images: BTreeMap<String, (usize, Blob)>,
    authorization: Option<String>,
}

impl Registry {
    /// Serves every image of `archive` under its own name as well.
    #[must_use]
    pub fn with(mut self, archive: Archive) -> Self {
        let number = self.archives.len();
        let named = archive.images().iter().map(|i| (i.name.clone(), (number, i.manifest.clone())));
        self.images.extend(named);
        self.archives.push(archive);
        self
    }

    /// Serves the image `of` under the name `name` too, such as `192.168.77.1:5000/private/tool:1`.
    ///
    /// # Errors
    /// There is no image `of`.
    pub fn with_name(mut self, name: &str, of: &str) -> Result<Self, ImageError> {
        let image =
            self.images.get(of).cloned().ok_or_else(|| ImageError::Unknown { name: of.to_string() })?;
        self.images.insert(name.to_string(), image);
        Ok(self)
    }

    /// Refuses whoever does not say this name and password.
    #[must_use]
    pub fn with_login(mut self, user: &str, password: &str) -> Self {
        let login = base64::prelude::BASE64_STANDARD.encode(format!("{user}:{password}"));
        self.authorization = Some(format!("Basic {login}"));
        self
    }

    /// The names that are served.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.images.keys().map(String::as_str)
    }

    /// Answers on `listener` until the result is dropped.
    ///
    /// # Errors
    /// The system gives no thread for it.
    pub fn serve(self, listener: TcpListener) -> Result<Serving, ImageError> {
        let start = |source| ImageError::Serve { source };
        listener.set_nonblocking(true).map_err(start)?;
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            if let Err(source) = run(Arc::new(self), listener, stopped) {
                tracing::warn!(error = %source, "the registry ended");
            }
        };
        let thread = std::thread::Builder::new().name("registry".to_string()).spawn(work).map_err(start)?;
        Ok(Serving { stop: Some(stop), thread: Some(thread) })
    }
}

/// The text of containerd's `hosts.toml` that sends pulls to a registry at `address` and nowhere else.
#[must_use]
pub fn mirror_hosts(address: SocketAddr) -> String {
    format!("server = \"http://{address}\"\n[host.\"http://{address}\"]\n")
}

/// A registry at work; it ends with this value.
#[derive(Debug)]
pub struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the registry's thread panicked");
        }
    }
}

fn run(
    registry: Arc<Registry>,
    listener: TcpListener,
    stopped: oneshot::Receiver<()>,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut connections = JoinSet::new();
        let accept = async {
            loop {
                let (stream, _) = listener.accept().await?;
                let registry = Arc::clone(&registry);
                let service = service_fn(move |request| answer::answer(Arc::clone(&registry), request));
                connections.spawn(async move {
                    let connection = hyper::server::conn::http1::Builder::new();
                    // A client that goes away in the middle of a layer asks again, or gave up.
                    drop(connection.serve_connection(TokioIo::new(stream), service).await);
                });
                while connections.try_join_next().is_some() {}
            }
        };
        tokio::select! {
            ended = accept => ended,
            _ = stopped => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests;
