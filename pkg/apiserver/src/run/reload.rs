//! Certificate files that are read again when they change: the server's own, those of the front proxy, and bundles of
//! authorities.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::outbound::Identity;
use crate::serve::{Trust, tls};
use crate::server::Server;

/// How often the files are looked at, as upstream does beside its notifications.
const PERIOD: Duration = Duration::from_secs(60);

/// Reads files; why they cannot be used.
type Read = Box<dyn Fn(&[PathBuf]) -> Result<(), String> + Send + Sync>;

/// Files that belong together and what is done with them.
struct Watched {
    what: &'static str,
    files: Vec<PathBuf>,
    seen: Vec<Option<SystemTime>>,
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
        let seen = times(&files);
        Some(Self { what, files, seen, read: Box::new(read) })
    }

    /// Reads the files when one of them changed. What cannot be read is tried again at the next look.
    fn look(&mut self) {
        let now = times(&self.files);
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

fn times(files: &[PathBuf]) -> Vec<Option<SystemTime>> {
    files.iter().map(|path| std::fs::metadata(path).and_then(|m| m.modified()).ok()).collect()
}

/// Looks for ever.
pub(super) async fn follow(server: Arc<Server>, trust: Trust, serving: Arc<tls::Serving>) {
    let mut watched = watched(&server, trust, serving);
    loop {
        tokio::time::sleep(PERIOD).await;
        watched.iter_mut().for_each(Watched::look);
    }
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
}
