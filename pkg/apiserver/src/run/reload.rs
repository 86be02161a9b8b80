//! Certificate files that are read again when they change: the server's own, those of the front proxy, and bundles of
//! authorities.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use inotify::{EventStream, Inotify, WatchMask};

use crate::outbound::Identity;
use crate::serve::{Trust, tls};
use crate::server::Server;

/// How often the files are looked at where the system gives no notifications.
const PERIOD: Duration = Duration::from_secs(60);

/// Reads files; why they cannot be used.
type Read = Box<dyn Fn(&[PathBuf]) -> Result<(), String> + Send + Sync>;

/// Files that belong together and what is done with them.
struct Watched {
    what: &'static str,
    files: Vec<PathBuf>,
    seen: Vec<Option<Stamp>>,
    read: Read,
}

impl Watched {
    fn new(
        what: &'static str,
        files: &[Option<&PathBuf>],
        read: impl Fn(&[PathBuf]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Option<Self> {
        let files: Option<Vec<PathBuf>> = files.iter().map(|file| file.cloned()).collect();
        let files = files?;
        let seen = stamps(&files);
        Some(Self { what, files, seen, read: Box::new(read) })
    }

    /// Reads the files when one of them changed. What cannot be read is tried again at the next look.
    fn look(&mut self) {
        let now = stamps(&self.files);
        if now == self.seen {
            return;
        }
        match (self.read)(&self.files) {
            Ok(()) => {
                self.seen = now;
                tracing::info!(what = self.what, "read again");
            }
            Err(error) => tracing::error!(what = self.what, error, "kept as it was"),
        }
    }
}

/// What tells one content of a file from another: the clock of a file system ticks too slowly to do it alone.
type Stamp = (Option<SystemTime>, u64, u64);

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |m: std::fs::Metadata| (m.modified().ok(), m.ino(), m.len());
    files.iter().map(|path| std::fs::metadata(path).map(stamp).ok()).collect()
}

/// Looks whenever something happens in a folder of the files, for ever.
pub(super) async fn follow(server: Arc<Server>, trust: Trust, serving: Arc<tls::Serving>) {
    follow_all(watched(&server, trust, serving)).await;
}

async fn follow_all(mut watched: Vec<Watched>) {
    let mut events = match notifications(&watched) {
        Ok(events) => Some(events),
        Err(error) => {
            tracing::warn!(%error, "no notifications of changed certificate files; looking once a minute");
            None
        }
    };
    // What changed between the first reading and the first notification.
    watched.iter_mut().for_each(Watched::look);
    loop {
        let event = match &mut events {
            Some(stream) => stream.next().await,
            None => None,
        };
        if !matches!(event, Some(Ok(_))) {
            events = None;
            tokio::time::sleep(PERIOD).await;
        }
        watched.iter_mut().for_each(Watched::look);
    }
}

/// Events of the folders rather than the files: a file is replaced by a rename, or by the change of a link beside it.
fn notifications(watched: &[Watched]) -> std::io::Result<EventStream<[u8; 1024]>> {
    let inotify = Inotify::init()?;
    let files = watched.iter().flat_map(|group| &group.files);
    let folders: BTreeSet<&Path> = files.filter_map(|file| file.parent()).collect();
    let mask = WatchMask::CLOSE_WRITE | WatchMask::MOVED_TO | WatchMask::ATTRIB | WatchMask::DELETE;
    for folder in folders {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        inotify.watches().add(folder, mask)?;
    }
    inotify.into_event_stream([0; 1024])
}

fn watched(server: &Arc<Server>, trust: Trust, serving: Arc<tls::Serving>) -> Vec<Watched> {
    let config = &server.config;
    let mut out = Vec::new();
    for (what, file, authorities) in [
        ("client authorities", &config.client_ca_file, trust.clients),
        ("front proxy authorities", &config.requestheader_client_ca_file, trust.front_proxies),
    ] {
        out.extend(Watched::new(what, &[file.as_ref()], move |files| {
            let pem = files.first().map(std::fs::read).transpose().map_err(|e| e.to_string())?;
            authorities.load(&pem.unwrap_or_default())
        }));
    }
    let own = [Some(&config.tls_cert_file), Some(&config.tls_private_key_file)];
    out.extend(Watched::new("serving certificate", &own, move |files| match files {
        [certificate, key] => serving.reload(certificate, key).map_err(|e| e.to_string()),
        _ => Ok(()),
    }));
    let proxy = [config.proxy_client_cert_file.as_ref(), config.proxy_client_key_file.as_ref()];
    let aggregator = Arc::clone(&server.aggregator);
    out.extend(Watched::new("front proxy certificate", &proxy, move |files| match files {
        [certificate, key] => {
            aggregator.set_identity(Identity::load(certificate, key).map_err(|e| e.to_string())?);
            Ok(())
        }
        _ => Ok(()),
    }));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_once_a_change() {
        let dir = std::env::temp_dir().join(format!("reload-{}", uuid::Uuid::new_v4()));
        std::fs::write(&dir, "a").unwrap();
        let count = Arc::new(parking_lot::Mutex::new(0));
        let counted = Arc::clone(&count);
        let mut watched = Watched::new("x", &[Some(&dir)], move |_| {
            *counted.lock() += 1;
            Ok(())
        })
        .unwrap();
        watched.look();
        assert_eq!(*count.lock(), 0);
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        std::fs::File::options().write(true).open(&dir).unwrap().set_modified(later).unwrap();
        watched.look();
        watched.look();
        assert_eq!(*count.lock(), 1);
        std::fs::remove_file(&dir).unwrap();
        assert!(Watched::new("x", &[None], |_| Ok(())).is_none());
    }

    #[tokio::test]
    async fn a_file_that_is_replaced_is_read_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tls.crt");
        std::fs::write(&file, "old").unwrap();
        let (told, mut read) = tokio::sync::mpsc::unbounded_channel();
        let watched = Watched::new("x", &[Some(&file)], move |files| {
            told.send(std::fs::read_to_string(&files[0]).unwrap()).map_err(|e| e.to_string())
        });
        let following = follow_all(vec![watched.unwrap()]);
        let replace = async {
            // Once the task waits for events.
            tokio::task::yield_now().await;
            std::fs::write(dir.path().join("new"), "new").unwrap();
            std::fs::rename(dir.path().join("new"), &file).unwrap();
            read.recv().await
        };
        let read = tokio::select! {
            () = following => None,
            read = tokio::time::timeout(Duration::from_secs(10), replace) => read.ok().flatten(),
        };
        assert_eq!(read.as_deref(), Some("new"));
    }
}
