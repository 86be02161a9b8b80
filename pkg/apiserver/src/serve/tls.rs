//! The server's TLS: its certificate, and client certificates that are asked for but judged after the handshake.
//!
//! A certificate of an unknown authority must end in a 401 with a Status, as upstream answers, and the authority
//! decides whether it is a client or the front proxy; so the handshake only proves possession of the key.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
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

/// The server's TLS settings.
pub(crate) fn server_config(
    certificate: &Path,
    key: &Path,
    clients: &Authorities,
) -> Result<Arc<ServerConfig>, ServeError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (chain, private) = key_pair(certificate, key)?;
    let ask = AskForCertificate { provider: Arc::clone(&provider), hints: clients.subjects() };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ServeError::Tls)?
        .with_client_cert_verifier(Arc::new(ask))
        .with_single_cert(chain, private)
        .map_err(ServeError::Tls)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
