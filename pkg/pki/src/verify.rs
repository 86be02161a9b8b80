//! How a client judges the certificate of a server, by Go's rules.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, VerifierBuilderError};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use x509_parser::prelude::FromDer as _;

/// Trusts chains to its authorities and, as Go does, a certificate that stands among them itself: authority or not.
/// Servers with a self-signed certificate, upstream's own among them, are known to their clients that way.
#[derive(Debug)]
pub struct ServerVerifier {
    provider: Arc<CryptoProvider>,
    trusted: Option<Trusted>,
}

#[derive(Debug)]
struct Trusted {
    certificates: Vec<CertificateDer<'static>>,
    /// None where none of them can be an authority.
    chains: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerVerifier {
    /// Trusts `certificates` and what they have signed.
    ///
    /// # Errors
    /// When the provider knows no way to verify signatures.
    pub fn of(certificates: Vec<CertificateDer<'static>>) -> Result<Self, VerifierBuilderError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        // What is no authority is compared as it is.
        roots.add_parsable_certificates(certificates.iter().cloned());
        let chains = match roots.is_empty() {
            true => None,
            false => Some(
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                    .build()?,
            ),
        };
        Ok(Self { provider, trusted: Some(Trusted { certificates, chains }) })
    }

    /// Takes every certificate, for connections that carry no secret or whose user said so.
    #[must_use]
    pub fn any() -> Self {
        Self { provider: Arc::new(rustls::crypto::ring::default_provider()), trusted: None }
    }

    /// The start of a client's configuration that judges servers so.
    ///
    /// # Panics
    /// Never: ring speaks the default versions.
    #[must_use]
    pub fn client(self) -> rustls::ConfigBuilder<rustls::ClientConfig, rustls::client::WantsClientCert> {
        rustls::ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .expect("ring supports the default versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(self))
    }
}

impl Trusted {
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        if self.certificates.iter().any(|known| known.as_ref() == certificate.as_ref()) {
            in_time(certificate, now)?;
            return verify_server_name(&ParsedCertificate::try_from(certificate)?, name);
        }
        let chains = self.chains.as_ref().ok_or(CertificateError::UnknownIssuer)?;
        chains.verify_server_cert(certificate, intermediates, name, &[], now).map(drop)
    }
}

fn in_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let (_, parsed) = x509_parser::certificate::X509Certificate::from_der(certificate)
        .map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < parsed.validity().not_before.timestamp() {
        return Err(CertificateError::NotValidYet);
    }
    if now > parsed.validity().not_after.timestamp() {
        return Err(CertificateError::Expired);
    }
    Ok(())
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(trusted) = &self.trusted {
            trusted.verify(end_entity, intermediates, server_name, now).map_err(|error| match error {
                rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                ) => rustls::Error::General(wrong_name(end_entity, server_name)),
                other => other,
            })?;
        }
        Ok(ServerCertVerified::assertion())
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

/// What a certificate of another name is for, as Go says it.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn self_signed(authority: bool, from: i32, until: i32) -> CertificateDer<'static> {
        let mut params = rcgen::CertificateParams::new(vec!["server.test".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        if authority {
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        }
        let key = rcgen::KeyPair::generate().expect("ring makes keys");
        params.self_signed(&key).expect("signed").der().clone()
    }

    fn judge(verifier: &ServerVerifier, certificate: &CertificateDer<'_>, name: &str) -> Result<(), String> {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_700_000_000));
        let verdict = verifier.verify_server_cert(certificate, &[], &name, &[], now);
        verdict.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_trusted_certificate_may_be_the_servers_own() {
        for authority in [true, false] {
            let certificate = self_signed(authority, 2020, 2030);
            let verifier = ServerVerifier::of(vec![certificate.clone()]).expect("built");
            assert_eq!(judge(&verifier, &certificate, "server.test"), Ok(()));
            let wrong = judge(&verifier, &certificate, "other.test").unwrap_err();
            assert!(wrong.contains("valid for server.test, not other.test"), "{wrong}");
        }
    }

    #[test]
    fn strangers_and_certificates_out_of_time_are_refused() {
        let known = self_signed(true, 2020, 2030);
        let verifier = ServerVerifier::of(vec![known]).expect("built");
        let stranger = self_signed(false, 2020, 2030);
        assert!(judge(&verifier, &stranger, "server.test").is_err());
        assert_eq!(judge(&ServerVerifier::any(), &stranger, "other.test"), Ok(()));
        for (from, until) in [(2010, 2020), (2027, 2030)] {
            let certificate = self_signed(true, from, until);
            let verifier = ServerVerifier::of(vec![certificate.clone()]).expect("built");
            assert!(judge(&verifier, &certificate, "server.test").is_err(), "{from} to {until}");
        }
    }
}
