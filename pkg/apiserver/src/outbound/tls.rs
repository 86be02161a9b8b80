//! TLS to other servers: verified by the bundle that an object carries, with errors in upstream's words.

use std::path::Path;
use std::sync::Arc;

use copepod_api::field::quote;
use copepod_pki::ServerVerifier;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::address::Endpoint;
use super::pool::Stream;
use crate::error::ServeError;

/// Where systems keep their authorities.
const SYSTEM: &[&str] =
    &["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A client certificate and its key.
#[derive(Debug)]
pub(crate) struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads both from their files.
    ///
    /// # Errors
    /// Files that cannot be read or hold something else.
    pub(crate) fn load(certificate: &Path, key: &Path) -> Result<Self, ServeError> {
        let (chain, key) = crate::serve::tls::key_pair(certificate, key)?;
        Ok(Self { chain, key })
    }
}

/// The handshake with the server of `to` over `stream`.
pub(super) async fn connect(
    to: &Endpoint,
    identity: Option<&Identity>,
    stream: TcpStream,
) -> Result<Stream, String> {
    let name = to.server_name();
    let server = ServerName::try_from(name.clone()).map_err(|e| e.to_string())?;
    let config = client_config(to, identity)?;
    TlsConnector::from(Arc::new(config)).connect(server, stream).await.map_err(|e| explain(&e))
}

fn client_config(to: &Endpoint, identity: Option<&Identity>) -> Result<ClientConfig, String> {
    let builder = verifier(to)?.client();
    let mut config = match identity {
        Some(identity) => builder
            .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(|e| e.to_string())?,
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The endpoint's bundle, or the system's where it has none.
fn verifier(to: &Endpoint) -> Result<ServerVerifier, String> {
    if to.insecure {
        return Ok(ServerVerifier::any());
    }
    let pem = if to.bundle.is_empty() {
        SYSTEM.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default()
    } else {
        to.bundle.clone()
    };
    let bundle: Vec<_> = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect();
    if bundle.is_empty() && !to.bundle.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    ServerVerifier::of(bundle).map_err(|e| e.to_string())
}

/// Why a handshake failed, as Go words it.
fn explain(error: &std::io::Error) -> String {
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        return if error.kind() == std::io::ErrorKind::UnexpectedEof {
            "EOF".to_owned()
        } else {
            error.to_string()
        };
    };
    let why = match tls {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "x509: certificate signed by unknown authority".to_owned()
        }
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => "x509: certificate has expired or is not yet valid".to_owned(),
        rustls::Error::General(text) if text.starts_with("x509: ") => text.clone(),
        rustls::Error::InvalidCertificate(other) => format!("x509: {other:?}"),
        rustls::Error::InvalidMessage(_) => {
            return "http: server gave HTTP response to HTTPS client".to_owned();
        }
        rustls::Error::AlertReceived(alert) => return format!("remote error: tls: {alert:?}"),
        other => return format!("tls: {}", quote(&other.to_string())),
    };
    format!("tls: failed to verify certificate: {why}")
}
