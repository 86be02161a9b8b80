//! TLS to other servers: verified by the bundle that an object carries, with errors in upstream's words.

use std::path::Path;
use std::sync::Arc;

use copepod_api::field::quote;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use x509_parser::prelude::FromDer as _;

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
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new(to, Arc::clone(&provider))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
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

/// Verifies a chain against a bundle. A certificate that stands in the bundle itself is trusted, authority or not.
#[derive(Debug)]
pub(crate) struct Verifier {
    provider: Arc<CryptoProvider>,
    bundle: Vec<CertificateDer<'static>>,
    chains: Option<Arc<WebPkiServerVerifier>>,
    insecure: bool,
}

impl Verifier {
    /// Takes any certificate: what upstream does to kubelets without `--kubelet-certificate-authority`, and to what
    /// is proxied.
    pub(crate) fn of_nothing(provider: Arc<CryptoProvider>) -> Self {
        Self { provider, bundle: Vec::new(), chains: None, insecure: true }
    }

    fn new(to: &Endpoint, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let mut own = Self::of_nothing(provider);
        if to.insecure {
            return Ok(own);
        }
        own.insecure = false;
        let pem = if to.bundle.is_empty() {
            SYSTEM.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default()
        } else {
            to.bundle.clone()
        };
        own.bundle = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect();
        if own.bundle.is_empty() && !to.bundle.is_empty() {
            return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
        }
        let mut roots = RootCertStore::empty();
        // What is no authority is compared as it is.
        roots.add_parsable_certificates(own.bundle.iter().cloned());
        if !roots.is_empty() {
            let provider = Arc::clone(&own.provider);
            let built = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
            own.chains = Some(built.map_err(|e| e.to_string())?);
        }
        Ok(own)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.insecure {
            return Ok(ServerCertVerified::assertion());
        }
        if self.bundle.iter().any(|known| known.as_ref() == end_entity.as_ref()) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let chains = self.chains.as_ref().ok_or(CertificateError::UnknownIssuer)?;
        chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now).map_err(
            |error| match error {
                rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                ) => rustls::Error::General(wrong_name(end_entity, server_name)),
                other => other,
            },
        )
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// What a certificate of another name is for.
fn wrong_name(certificate: &CertificateDer<'_>, wanted: &ServerName<'_>) -> String {
    let wanted = wanted.to_str().into_owned();
    let parsed = x509_parser::certificate::X509Certificate::from_der(certificate).ok();
    let names = parsed.as_ref().and_then(|(_, c)| c.subject_alternative_name().ok().flatten());
    let names: Vec<String> = names
        .into_iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            x509_parser::extensions::GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        return format!("x509: certificate is not valid for any names, but wanted to match {wanted}");
    }
    format!("x509: certificate is valid for {}, not {wanted}", names.join(", "))
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
