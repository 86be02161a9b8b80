//! TLS of the client: our authorities only, and an identity that is read again when its files change.

use std::sync::Arc;
use std::time::SystemTime;

use copepod_pki::ServerVerifier;
use parking_lot::Mutex;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::{ClientConfig, Identity, Pem};
use crate::{ClientError, Result};

/// The rustls configuration for `config`.
///
/// # Errors
/// When authorities, certificate or key are missing or malformed.
pub fn client_tls(config: &ClientConfig) -> Result<rustls::ClientConfig> {
    let ca = config.ca.as_ref().ok_or_else(|| bad("certificate authority", "not configured"))?;
    let authorities = CertificateDer::pem_slice_iter(&ca.read()?)
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|e| bad("certificate authority", e))?;
    if authorities.is_empty() {
        return Err(bad("certificate authority", "no certificate in it"));
    }
    let builder = ServerVerifier::of(authorities).map_err(|e| bad("certificate authority", e))?.client();
    Ok(match &config.identity {
        Identity::Certificate { cert, key } => {
            let provider = Arc::clone(builder.crypto_provider());
            let resolver = ReloadingIdentity::new(provider, cert.clone(), key.clone())?;
            builder.with_client_cert_resolver(Arc::new(resolver))
        }
        _ => builder.with_no_client_auth(),
    })
}

fn bad(what: &str, why: impl std::fmt::Display) -> ClientError {
    ClientError::Config(format!("{what}: {why}"))
}

/// Loads the pair again at a handshake when a file has changed; a pair that is broken (half written) is not taken.
#[derive(Debug)]
struct ReloadingIdentity {
    provider: Arc<CryptoProvider>,
    cert: Pem,
    key: Pem,
    current: Mutex<(Option<SystemTime>, Arc<CertifiedKey>)>,
}

impl ReloadingIdentity {
    fn new(provider: Arc<CryptoProvider>, cert: Pem, key: Pem) -> Result<Self> {
        let loaded = load(&provider, &cert, &key)?;
        let current = Mutex::new((modified(&cert), Arc::new(loaded)));
        Ok(Self { provider, cert, key, current })
    }
}

fn modified(pem: &Pem) -> Option<SystemTime> {
    let Pem::File(path) = pem else { return None };
    std::fs::metadata(path).and_then(|m| m.modified()).ok()
}

fn load(provider: &CryptoProvider, cert: &Pem, key: &Pem) -> Result<CertifiedKey> {
    let chain = CertificateDer::pem_slice_iter(&cert.read()?)
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|e| bad("client certificate", e))?;
    if chain.is_empty() {
        return Err(bad("client certificate", "no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_slice(&key.read()?).map_err(|e| bad("client key", e))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|e| bad("client certificate", e))
}

impl ResolvesClientCert for ReloadingIdentity {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let mut current = self.current.lock();
        let seen = modified(&self.cert);
        if seen != current.0 {
            match load(&self.provider, &self.cert, &self.key) {
                Ok(pair) => *current = (seen, Arc::new(pair)),
                Err(error) => tracing::warn!(%error, "keeping the previous client certificate"),
            }
        }
        Some(Arc::clone(&current.1))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
