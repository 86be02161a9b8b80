//! TLS of a component's server: its certificate, and the authority of those that clients may show.

use std::sync::Arc;
use std::time::Duration;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio_rustls::TlsAcceptor;

use super::ServingConfig;
use crate::config::Pem;
use crate::resources::CONFIG_MAPS;
use crate::{Client, ClientError, Result};

/// Where the API server publishes the authority of client certificates.
const PUBLISHED: (&str, &str, &str) = ("kube-system", "extension-apiserver-authentication", "client-ca-file");
/// How long a handshake waits for it; while it is not known, tokens are taken and certificates are not.
const PATIENCE: Duration = Duration::from_secs(2);

/// The server's side of handshakes.
pub(super) struct Tls {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    client: Client,
    with_clients: OnceCell<TlsAcceptor>,
    without: TlsAcceptor,
}

fn bad(why: impl std::fmt::Display) -> ClientError {
    ClientError::Config(format!("serving certificate: {why}"))
}

impl Tls {
    /// Reads the files. An authority that is given must be good; the published one may still be to come.
    pub(super) fn new(config: &ServingConfig, client: &Client) -> Result<Self> {
        let (chain, key) = match &config.cert {
            Some((cert, key)) => {
                let chain = CertificateDer::pem_slice_iter(&Pem::File(cert.clone()).read()?)
                    .collect::<std::result::Result<Vec<_>, _>>()
                    .map_err(bad)?;
                (chain, PrivateKeyDer::from_pem_slice(&Pem::File(key.clone()).read()?).map_err(bad)?)
            }
            None => self_signed()?,
        };
        let without = acceptor(&chain, &key, None)?;
        let given = config.client_ca.as_ref().map(|file| {
            let pem = Pem::File(file.clone()).read()?;
            acceptor(&chain, &key, Some(roots(&pem)?))
        });
        let with_clients = OnceCell::new_with(given.transpose()?);
        Ok(Self { chain, key, client: client.clone(), with_clients, without })
    }

    /// What accepts the next connection.
    pub(super) async fn acceptor(&self) -> TlsAcceptor {
        let made = self.with_clients.get_or_try_init(|| async {
            acceptor(&self.chain, &self.key, Some(roots(&self.published().await?)?))
        });
        match made.await {
            Ok(acceptor) => acceptor.clone(),
            Err(error) => {
                tracing::debug!(error = %crate::chain(&error), "no client certificates yet");
                self.without.clone()
            }
        }
    }

    async fn published(&self) -> Result<Vec<u8>> {
        let (namespace, name, entry) = PUBLISHED;
        let asked = CONFIG_MAPS.object(namespace, name);
        let answer = tokio::time::timeout(PATIENCE, self.client.get::<Value>(&asked)).await;
        let map = answer.map_err(|_| bad(format!("{namespace}/{name} was not read in time")))??;
        let text =
            map["data"][entry].as_str().ok_or_else(|| bad(format!("{namespace}/{name} has no {entry}")))?;
        Ok(text.as_bytes().to_vec())
    }
}

fn roots(pem: &[u8]) -> Result<RootCertStore> {
    let bad = |why: String| ClientError::Config(format!("authority of client certificates: {why}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.map_err(|e| bad(e.to_string()))?).map_err(|e| bad(e.to_string()))?;
    }
    if roots.is_empty() { Err(bad("no certificate in it".to_owned())) } else { Ok(roots) }
}

fn self_signed() -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).map_err(bad)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key)))
}

/// A client may show a certificate of one of `clients`, and may come without.
fn acceptor(
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
    clients: Option<RootCertStore>,
) -> Result<TlsAcceptor> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(bad)?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.allow_unauthenticated().build().map_err(bad)?)
        }
    };
    let mut config = builder.with_single_cert(chain.to_vec(), key.clone_key()).map_err(bad)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientConfig;

    #[test]
    fn an_authority_that_cannot_be_used_is_refused_at_start() {
        let dir = tempfile::tempdir().unwrap();
        let client = Client::new(&ClientConfig::new("http://127.0.0.1:1")).unwrap();
        let start = |pem: &str| {
            let file = dir.path().join("ca.crt");
            std::fs::write(&file, pem).unwrap();
            let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
            let config = ServingConfig { client_ca: Some(file), ..ServingConfig::new(listen) };
            Tls::new(&config, &client).map(drop)
        };
        let made = rcgen::generate_simple_self_signed(vec!["ca".to_owned()]).unwrap();
        assert!(start(&made.cert.pem()).is_ok());
        assert!(start("nothing").is_err_and(|e| e.to_string().contains("no certificate in it")));
    }
}
