//! Client certificates: which authority issued them, and whom they name.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::user::UserInfo;

/// What the TLS peer proved with its certificate.
#[derive(Debug, Clone, Default)]
pub(crate) enum PeerIdentity {
    /// No certificate.
    #[default]
    None,
    /// A certificate of `--client-ca-file`.
    Client(Arc<ClientIdentity>),
    /// A certificate of `--requestheader-client-ca-file`; its common name.
    FrontProxy(Arc<ClientIdentity>),
    /// A certificate of no authority known here.
    Refused,
}

/// A verified certificate.
#[derive(Debug)]
pub(crate) struct ClientIdentity {
    /// CN and every O.
    pub user: UserInfo,
    /// Seconds since 1970 after which the certificate counts no more, even on a connection made before.
    pub not_after: i64,
}

impl ClientIdentity {
    /// Whether the certificate has not expired since the handshake.
    pub(crate) fn valid_now(&self) -> bool {
        copepod_sys::clock::now().as_second() <= self.not_after
    }

    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let subject = parsed.subject();
        let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            attribute.as_str().map(str::to_owned).unwrap_or_default()
        };
        let user = UserInfo {
            name: subject.iter_common_name().next().map(text).unwrap_or_default(),
            groups: subject.iter_organization().map(text).filter(|g| !g.is_empty()).collect(),
            extra: std::iter::once((
                "authentication.kubernetes.io/credential-id".to_owned(),
                vec![format!("X509SHA256={}", hex::encode(sha256(certificate)))],
            ))
            .collect(),
            ..UserInfo::default()
        };
        (!user.name.is_empty()).then_some(Self { user, not_after: parsed.validity().not_after.timestamp() })
    }
}

fn sha256(bytes: &[u8]) -> impl AsRef<[u8]> {
    ring::digest::digest(&ring::digest::SHA256, bytes)
}

/// A bundle of authorities that can be replaced while the server runs.
#[derive(Debug, Default)]
pub(crate) struct Authorities {
    verifier: ArcSwap<Option<Arc<dyn ClientCertVerifier>>>,
    /// The subjects, as TLS hints to clients.
    hints: ArcSwap<Vec<rustls::DistinguishedName>>,
}

impl Authorities {
    /// Replaces the bundle. A bundle without a usable certificate is refused and the old one stays.
    pub(crate) fn load(&self, pem: &[u8]) -> Result<(), String> {
        let mut roots = RootCertStore::empty();
        for block in x509_parser::pem::Pem::iter_from_buffer(pem).filter_map(Result::ok) {
            if block.label == "CERTIFICATE" {
                roots.add(CertificateDer::from(block.contents)).map_err(|e| e.to_string())?;
            }
        }
        if roots.is_empty() {
            return Err("no certificate in the bundle".to_owned());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|e| e.to_string())?;
        self.hints.store(Arc::new(verifier.root_hint_subjects().to_vec()));
        self.verifier.store(Arc::new(Some(verifier)));
        Ok(())
    }

    /// The subjects of the authorities.
    pub(crate) fn subjects(&self) -> Arc<Vec<rustls::DistinguishedName>> {
        self.hints.load_full()
    }

    fn issued(&self, chain: &[CertificateDer<'static>]) -> bool {
        let verifier = self.verifier.load();
        let (Some(verifier), Some((leaf, rest))) = (verifier.as_ref(), chain.split_first()) else {
            return false;
        };
        let seconds = u64::try_from(copepod_sys::clock::now().as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        verifier.verify_client_cert(leaf, rest, now).is_ok()
    }
}

/// Decides which authority issued the peer's chain. Called once a connection.
pub(crate) fn identify(
    chain: &[CertificateDer<'static>],
    clients: &Authorities,
    front_proxies: &Authorities,
) -> PeerIdentity {
    let Some(leaf) = chain.first() else { return PeerIdentity::None };
    let identity = |wrap: fn(Arc<ClientIdentity>) -> PeerIdentity| {
        ClientIdentity::of(leaf).map_or(PeerIdentity::Refused, |i| wrap(Arc::new(i)))
    };
    if front_proxies.issued(chain) {
        identity(PeerIdentity::FrontProxy)
    } else if clients.issued(chain) {
        identity(PeerIdentity::Client)
    } else {
        PeerIdentity::Refused
    }
}
