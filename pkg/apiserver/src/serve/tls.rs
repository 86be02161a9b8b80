//! The server's TLS: its certificate, and client certificates that are asked for but judged after the handshake.
//!
//! A certificate of an unknown authority must end in a 401 with a Status, as upstream answers, and the authority
//! decides whether it is a client or the front proxy; so the handshake only proves possession of the key.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

use crate::authn::certificate::Authorities;
use crate::error::ServeError;

/// Takes any certificate whose key the peer has; [`crate::authn::certificate::identify`] judges it.
#[derive(Debug)]
struct AskForCertificate {
    provider: Arc<CryptoProvider>,
    hints: Arc<Vec<DistinguishedName>>,
}

impl ClientCertVerifier for AskForCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Reads a file, naming it when that fails.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    std::fs::read(path).map_err(|source| ServeError::File { path: path.to_owned(), source })
}

/// A certificate chain and its key from PEM files.
pub(crate) fn key_pair(
    certificate: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ServeError> {
    let bad = |path: &Path, what| ServeError::Pem { path: path.to_owned(), what };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read(certificate)?)
        .collect::<Result<_, _>>()
        .map_err(|_| bad(certificate, "a certificate"))?;
    if chain.is_empty() {
        return Err(bad(certificate, "a certificate"));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| bad(key, "a private key"))?;
    Ok((chain, private))
}

/// The server's certificate, which may be replaced while it runs: the next handshake shows the new one.
#[derive(Debug)]
pub(crate) struct Serving(ArcSwap<CertifiedKey>);

impl Serving {
    /// Reads certificate and key.
    pub(crate) fn load(certificate: &Path, key: &Path) -> Result<Arc<Self>, ServeError> {
        Ok(Arc::new(Self(ArcSwap::from_pointee(certified(certificate, key)?))))
    }

    /// Reads them again. When they do not fit together, as while they are being replaced, the old ones stay.
    pub(crate) fn reload(&self, certificate: &Path, key: &Path) -> Result<(), ServeError> {
        self.0.store(Arc::new(certified(certificate, key)?));
        Ok(())
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

fn certified(certificate: &Path, key: &Path) -> Result<CertifiedKey, ServeError> {
    let (chain, private) = key_pair(certificate, key)?;
    let provider = rustls::crypto::ring::default_provider();
    let key = provider.key_provider.load_private_key(private).map_err(ServeError::Tls)?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(ServeError::Tls)?;
    Ok(certified)
}

/// The server's TLS settings.
pub(crate) fn server_config(
    serving: Arc<Serving>,
    clients: &Authorities,
) -> Result<Arc<ServerConfig>, ServeError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let ask = AskForCertificate { provider: Arc::clone(&provider), hints: clients.subjects() };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ServeError::Tls)?
        .with_client_cert_verifier(Arc::new(ask))
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
