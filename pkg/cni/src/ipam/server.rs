//! The agent's side: answers the plugin, keeps the book and the kernel table.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use copepod_dataplane::nft::TableWatch;
use ipnet::IpNet;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::book::{Book, IpamError};
use super::nat::{Nat, TABLE, render_ports};
use crate::error::{CniError, code};
use crate::store::NodeStore;
use crate::wire::{Reply, Request};

/// The longest question: GC lists every attachment of the node.
const MAX_REQUEST: u64 = 1 << 20;
/// After a foreign change, wait this long for the rest of it before repairing.
const SETTLE: Duration = Duration::from_millis(200);

/// What the service needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// The socket the plugin asks on; its folder is created.
    pub socket: PathBuf,
    /// The pods' addresses, one range per family.
    pub ranges: Vec<IpNet>,
}

struct State {
    book: Book,
    nat: Nat,
}

/// Serves until `shutdown`. Must run in the node's network namespace.
///
/// # Errors
/// When the store cannot be read, the socket not be bound or the kernel table not be made.
pub async fn serve(store: NodeStore, config: Config, shutdown: CancellationToken) -> Result<(), IpamError> {
    let book = Book::open(&store, &config.ranges)?;
    let mut nat = Nat::open(&config.ranges)?;
    let mut watch = TableWatch::open(&[TABLE], Some(nat.port()))?;
    nat.rebuild(render_ports(book.records().values())).await?;
    let listener = bind(&config.socket)?;
    tracing::info!(socket = %config.socket.display(), attachments = book.records().len(), "serving pod addresses");
    let state = Arc::new(Mutex::new(State { book, nat }));
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(copepod_supervisor::spawn("cni-call", answer(stream, Arc::clone(&state)))),
                Err(error) => tracing::warn!(%error, "cannot accept a plugin call"),
            },
            () = watch.changed() => {
                tokio::time::sleep(SETTLE).await;
                repair(&state).await;
            }
        }
    }
    let _gone = std::fs::remove_file(&config.socket);
    Ok(())
}

fn bind(path: &Path) -> Result<UnixListener, IpamError> {
    use std::os::unix::fs::PermissionsExt;
    let bind = || -> std::io::Result<UnixListener> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    bind().map_err(|source| IpamError::Listen { path: path.to_owned(), source })
}

/// Puts the kernel table back after somebody else changed it.
async fn repair(state: &Mutex<State>) {
    let mut state = state.lock().await;
    let wanted = render_ports(state.book.records().values());
    match state.nat.rebuild(wanted).await {
        Ok(()) => tracing::info!(table = TABLE, "table was changed by somebody else and is restored"),
        Err(error) => tracing::error!(%error, "cannot restore the pod network's table"),
    }
}

async fn answer(stream: UnixStream, state: Arc<Mutex<State>>) {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    let reply = match BufReader::new(read.take(MAX_REQUEST)).read_line(&mut line).await {
        Ok(_) => match serde_json::from_str::<Request>(&line) {
            Ok(request) => handle(request, &state).await,
            Err(e) => Err(CniError::new(code::DECODE, "cannot read the request", e.to_string())),
        },
        Err(error) => Err(CniError::io("read the request", &error)),
    };
    let reply = reply.unwrap_or_else(|error| {
        tracing::warn!(%error, "plugin call failed");
        Reply { error: Some(error), ..Reply::default() }
    });
    let mut bytes = serde_json::to_vec(&reply).expect("a reply holds nothing that JSON cannot");
    bytes.push(b'\n');
    if let Err(error) = write.write_all(&bytes).await {
        tracing::warn!(%error, "the plugin left before its answer");
    }
}

async fn handle(request: Request, state: &Mutex<State>) -> Result<Reply, CniError> {
    let mut state = state.lock().await;
    let state = &mut *state;
    let reply = match request {
        Request::Status => return state.book.status(),
        Request::Check { handle } => return state.book.check(&handle),
        Request::Add(attach) => {
            let handle = attach.handle.clone();
            let reply = state.book.add(attach)?;
            if let Err(error) = program(state).await {
                state.book.del(&handle, "")?;
                return Err(error);
            }
            return Ok(reply);
        }
        Request::Del { handle, host_interface } => state.book.del(&handle, &host_interface)?,
        Request::PortMap { attach, addresses } => state.book.publish(attach, addresses)?,
        Request::Gc { network, valid } => {
            let valid: Vec<_> = valid.into_iter().map(|a| (a.container_id, a.ifname)).collect();
            for handle in state.book.stale(&network, &valid) {
                tracing::info!(handle, "attachment is gone, its addresses are free");
                state.book.del(&handle, "")?;
            }
            Reply::default()
        }
    };
    program(state).await?;
    Ok(reply)
}

async fn program(state: &mut State) -> Result<(), CniError> {
    let wanted = render_ports(state.book.records().values());
    state.nat.update(wanted).await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        CniError::new(code::IO, error.to_string(), cause)
    })
}
