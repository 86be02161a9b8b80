//! The server's certificate and the authority of its clients.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig as TlsConfig};

use crate::config::ServerConfig;
use crate::error::KubeletError;

fn unusable(path: &Path, why: impl std::fmt::Display) -> KubeletError {
    KubeletError::Certificate { path: path.to_owned(), why: why.to_string() }
}

/// TLS of the server. A client certificate is asked for, not demanded: a token may come instead.
pub(super) fn config(settings: &ServerConfig, node_name: &str) -> Result<TlsConfig, KubeletError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = TlsConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| unusable(Path::new("TLS"), e))?;
    let builder = match &settings.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(path).map_err(|e| unusable(path, e))? {
                roots.add(certificate.map_err(|e| unusable(path, e))?).map_err(|e| unusable(path, e))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|e| unusable(path, e))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let (chain, key) = match (&settings.cert_file, &settings.key_file) {
        (Some(certificate), Some(key)) => {
            let chain: Result<Vec<_>, _> =
                CertificateDer::pem_file_iter(certificate).map_err(|e| unusable(certificate, e))?.collect();
            let chain = chain.map_err(|e| unusable(certificate, e))?;
            (chain, PrivateKeyDer::from_pem_file(key).map_err(|e| unusable(key, e))?)
        }
        _ => self_signed(node_name)?,
    };
    let mut tls = builder.with_single_cert(chain, key).map_err(|e| unusable(Path::new("TLS"), e))?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// A certificate that nobody has signed, as upstream makes when none is configured.
fn self_signed(node_name: &str) -> Result<Pair, KubeletError> {
    let path = Path::new("self-signed certificate");
    let (certificate, key) =
        copepod_pki::self_signed(node_name, copepod_sys::clock::now()).map_err(|e| unusable(path, e))?;
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|e| unusable(path, e))?];
    Ok((chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| unusable(path, e))?))
}
