//! A loopback port of the caller that leads into the node: accepted here, connected there.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use copepod_sys::namespace;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::TestkitError;

/// One forwarded port. Dropping it closes the port and every connection through it.
#[derive(Debug)]
pub(crate) struct Forward {
    listener: TcpListener,
    local: SocketAddr,
    port: u16,
    worker: Option<Worker>,
}

/// A thread inside one network namespace; it ends when `stop` is dropped.
#[derive(Debug)]
struct Worker {
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Forward {
    /// Listens on `local` and connects to `port` on the loopback of the namespace at `net`.
    pub(crate) fn start(local: SocketAddr, port: u16, net: &Path) -> Result<Self, TestkitError> {
        let listen = || -> io::Result<(TcpListener, SocketAddr)> {
            let listener = TcpListener::bind(local)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, local) = listen().map_err(TestkitError::Control)?;
        let mut forward = Self { listener, local, port, worker: None };
        forward.follow(net)?;
        Ok(forward)
    }

    /// Where it listens.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Leads into another namespace from now on.
    pub(crate) fn follow(&mut self, net: &Path) -> Result<(), TestkitError> {
        self.end();
        let namespace = namespace::open(net)?;
        let listener = self.listener.try_clone().map_err(TestkitError::Control)?;
        let (stop, stopped) = oneshot::channel();
        let port = self.port;
        let work = move || {
            // A socket belongs to the namespace of the thread that makes it; the listener was made outside.
            let joined = namespace::join_net(std::os::fd::AsFd::as_fd(&namespace));
            drop(namespace);
            let result = joined.map_err(io::Error::other).and_then(|()| serve(listener, port, stopped));
            if let Err(error) = result {
                tracing::warn!(port, %error, "a forwarded port ended");
            }
        };
        let thread = std::thread::Builder::new().name("forward".to_string()).spawn(work);
        self.worker = Some(Worker { stop, thread: thread.map_err(TestkitError::Control)? });
        Ok(())
    }

    fn end(&mut self) {
        if let Some(Worker { stop, thread }) = self.worker.take() {
            drop(stop);
            if thread.join().is_err() {
                tracing::warn!(port = self.port, "a forwarding thread panicked");
            }
        }
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.end();
    }
}

fn serve(listener: TcpListener, port: u16, stopped: oneshot::Receiver<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut connections = tokio::task::JoinSet::new();
        let mut stopped = stopped;
        loop {
            tokio::select! {
                _ = &mut stopped => return Ok(()),
                accepted = listener.accept() => {
                    let (outside, _) = accepted?;
                    connections.spawn(connect(outside, port));
                }
                Some(_) = connections.join_next() => {}
            }
        }
    })
}

/// A connection that cannot be made inside is closed outside, as a refused one.
async fn connect(mut outside: TcpStream, port: u16) {
    let result = async {
        let mut inside = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        // A request of two small segments must not wait for an acknowledgement in between.
        outside.set_nodelay(true)?;
        inside.set_nodelay(true)?;
        tokio::io::copy_bidirectional(&mut outside, &mut inside).await
    };
    if let Err(error) = result.await {
        tracing::debug!(port, %error, "a forwarded connection ended");
    }
}
