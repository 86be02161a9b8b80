//! Certificate authorities on disk and the certificates they issue.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use x509_parser::pem::parse_x509_pem;

use crate::error::PkiError;
use crate::leaf::Leaf;
use crate::pem::{read_optional, write_private};

/// How far in the past certificates begin to be valid, in days.
pub const BACKDATE_DAYS: u64 = 365;
/// How long an authority is valid, in days (kubeadm's ten years).
const AUTHORITY_DAYS: u64 = 3650;
/// How long a leaf is valid, in days (kubeadm's year).
const LEAF_DAYS: u64 = 365;
/// A leaf with less time left than this is replaced.
const RENEW_DAYS: u64 = 90;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A certificate authority: its certificate and key.
#[derive(Debug)]
pub struct Authority {
    certificate: PathBuf,
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Loads the authority at `<stem>.crt` and `<stem>.key`, or makes it when neither exists.
    ///
    /// # Errors
    /// A half-missing or unreadable pair is an error, never a reason to make a new one: that would cut off every
    /// client and node that trusts the old one.
    pub fn ensure(stem: &Path, common_name: &str, now: Timestamp) -> Result<Self, PkiError> {
        let (certificate, key) = pair(stem);
        match (read_optional(&certificate)?, read_optional(&key)?) {
            (Some(certificate_pem), Some(key_pem)) => {
                Self::load(certificate, certificate_pem, &key, &key_pem)
            }
            (None, None) => Self::create(certificate, &key, common_name, now),
            (Some(_), None) => Err(PkiError::HalfPair { present: certificate, missing: key }),
            (None, Some(_)) => Err(PkiError::HalfPair { present: key, missing: certificate }),
        }
    }

    fn load(
        certificate: PathBuf,
        certificate_pem: String,
        key: &Path,
        key_pem: &str,
    ) -> Result<Self, PkiError> {
        let damaged = |path: &Path, what, why: String| PkiError::Damaged { path: path.to_owned(), what, why };
        let key_pair = crate::key_pair(key_pem).map_err(|e| damaged(key, "a private key", e.to_string()))?;
        check_pair(&certificate_pem, &key_pair)
            .map_err(|why| damaged(&certificate, "the certificate of its key", why))?;
        let issuer = Issuer::from_ca_cert_pem(&certificate_pem, key_pair)
            .map_err(|e| damaged(&certificate, "a certificate authority", e.to_string()))?;
        Ok(Self { certificate, certificate_pem, issuer })
    }

    fn create(certificate: PathBuf, key: &Path, common_name: &str, now: Timestamp) -> Result<Self, PkiError> {
        let issue = |source| PkiError::Issue { name: common_name.to_owned(), source };
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::KeyCertSign,
        ];
        set_validity(&mut params, now, AUTHORITY_DAYS);
        let key_pair = KeyPair::generate().map_err(issue)?;
        let certificate_pem = params.self_signed(&key_pair).map_err(issue)?.pem();
        write_private(key, &key_pair.serialize_pem(), 0o600)?;
        write_private(&certificate, &certificate_pem, 0o644)?;
        let issuer = Issuer::from_ca_cert_pem(&certificate_pem, key_pair).map_err(issue)?;
        Ok(Self { certificate, certificate_pem, issuer })
    }

    /// The path of the authority's certificate.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.certificate
    }

    /// The authority's certificate.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Makes sure that `<stem>.crt` and `<stem>.key` hold a certificate of this authority that fits `leaf` and has
    /// time left; says whether it was (re)issued.
    ///
    /// # Errors
    /// Names the file that cannot be read or written.
    pub fn ensure_leaf(&self, stem: &Path, leaf: &Leaf, now: Timestamp) -> Result<bool, PkiError> {
        let (certificate, key) = pair(stem);
        let present = read_optional(&certificate)?.zip(read_optional(&key)?);
        if present.is_some_and(|(certificate, key)| self.still_good(&certificate, &key, leaf, now)) {
            return Ok(false);
        }
        let (certificate_pem, key_pem) = self.issue(leaf, now)?;
        write_private(&key, &key_pem, 0o600)?;
        write_private(&certificate, &certificate_pem, 0o644)?;
        Ok(true)
    }

    /// Issues a certificate with a new key; both as PEM, certificate first.
    ///
    /// # Errors
    /// When a name cannot stand in a certificate.
    pub fn issue(&self, leaf: &Leaf, now: Timestamp) -> Result<(String, String), PkiError> {
        let issue = |source| PkiError::Issue { name: leaf.common_name.clone(), source };
        let mut params = leaf.params().map_err(issue)?;
        set_validity(&mut params, now, LEAF_DAYS);
        let key = KeyPair::generate().map_err(issue)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(issue)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// Whether a certificate on disk can stay: ours, of its key, as described, not about to end.
    fn still_good(&self, certificate_pem: &str, key_pem: &str, leaf: &Leaf, now: Timestamp) -> bool {
        let Ok(key) = crate::key_pair(key_pem) else { return false };
        if check_pair(certificate_pem, &key).is_err() {
            return false;
        }
        let Ok((_, authority)) = parse_x509_pem(self.certificate_pem.as_bytes()) else { return false };
        let Ok((_, pem)) = parse_x509_pem(certificate_pem.as_bytes()) else { return false };
        let (Ok(authority), Ok(certificate)) = (authority.parse_x509(), pem.parse_x509()) else {
            return false;
        };
        let renew_at =
            certificate.validity().not_after.timestamp() - i64::try_from(RENEW_DAYS * 86_400).unwrap_or(0);
        certificate.verify_signature(Some(authority.public_key())).is_ok()
            && leaf.covered_by(&certificate)
            && now.as_second() < renew_at
    }
}

/// A server certificate that only vouches for itself; certificate and key as PEM.
///
/// # Errors
/// When the name cannot stand in a certificate.
pub fn self_signed(name: &str, now: Timestamp) -> Result<(String, String), PkiError> {
    let issue = |source| PkiError::Issue { name: name.to_owned(), source };
    let leaf = Leaf::server(name, [name.to_owned()].into(), std::collections::BTreeSet::new());
    let mut params = leaf.params().map_err(issue)?;
    set_validity(&mut params, now, LEAF_DAYS);
    let key = KeyPair::generate().map_err(issue)?;
    let certificate = params.self_signed(&key).map_err(issue)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// `<stem>.crt` and `<stem>.key`. The stem may contain dots.
fn pair(stem: &Path) -> (PathBuf, PathBuf) {
    let with = |extension: &str| {
        let mut path = stem.as_os_str().to_owned();
        path.push(extension);
        PathBuf::from(path)
    };
    (with(".crt"), with(".key"))
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, days: u64) {
    let now = std::time::UNIX_EPOCH + Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
    let backdate = DAY * u32::try_from(BACKDATE_DAYS).unwrap_or(u32::MAX);
    params.not_before = now.checked_sub(backdate).unwrap_or(std::time::UNIX_EPOCH).into();
    params.not_after = (now + DAY * u32::try_from(days).unwrap_or(u32::MAX)).into();
}

/// Whether the certificate holds the public half of the key; the text says why not.
fn check_pair(certificate_pem: &str, key: &KeyPair) -> Result<(), String> {
    let (_, pem) = parse_x509_pem(certificate_pem.as_bytes()).map_err(|e| e.to_string())?;
    let certificate = pem.parse_x509().map_err(|e| e.to_string())?;
    if certificate.public_key().subject_public_key.data.as_ref() == key.public_key_raw() {
        Ok(())
    } else {
        Err("its public key is not that of the key beside it".to_owned())
    }
}

/// When the first certificate of a PEM text runs out, in seconds since 1970; `None` if there is none.
#[must_use]
pub fn not_after(pem: &[u8]) -> Option<i64> {
    let (_, pem) = parse_x509_pem(pem).ok()?;
    Some(pem.parse_x509().ok()?.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-30T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn an_authority_is_made_once_and_a_damaged_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let stem = dir.path().join("ca");
        let first = Authority::ensure(&stem, "kubernetes", now()).unwrap().pem().to_owned();
        assert_eq!(Authority::ensure(&stem, "kubernetes", now()).unwrap().pem(), first);
        std::fs::write(dir.path().join("ca.key"), "nonsense").unwrap();
        let error = Authority::ensure(&stem, "kubernetes", now()).unwrap_err().to_string();
        assert!(error.contains("ca.key") && error.contains("restore it from a backup"), "{error}");
        std::fs::remove_file(dir.path().join("ca.key")).unwrap();
        assert!(matches!(Authority::ensure(&stem, "kubernetes", now()), Err(PkiError::HalfPair { .. })));
    }

    #[test]
    fn a_leaf_is_kept_while_it_fits() {
        let dir = tempfile::tempdir().unwrap();
        let ca = Authority::ensure(&dir.path().join("ca"), "kubernetes", now()).unwrap();
        let stem = dir.path().join("apiserver");
        let mut leaf = Leaf::server(
            "kube-apiserver",
            ["kubernetes".to_owned()].into(),
            ["10.96.0.1".parse().unwrap()].into(),
        );
        assert!(ca.ensure_leaf(&stem, &leaf, now()).unwrap());
        assert!(!ca.ensure_leaf(&stem, &leaf, now()).unwrap(), "nothing changed");
        leaf.ips.insert("192.168.7.9".parse().unwrap());
        assert!(ca.ensure_leaf(&stem, &leaf, now()).unwrap(), "a new address");
        let later = "2027-10-30T12:00:00Z".parse().unwrap();
        assert!(ca.ensure_leaf(&stem, &leaf, later).unwrap(), "about to end");
        let other = Authority::ensure(&dir.path().join("other"), "kubernetes", now()).unwrap();
        assert!(other.ensure_leaf(&stem, &leaf, later).unwrap(), "another authority");
    }

    #[test]
    fn validity_begins_in_the_past() {
        let dir = tempfile::tempdir().unwrap();
        let ca = Authority::ensure(&dir.path().join("ca"), "kubernetes", now()).unwrap();
        let (certificate, _) =
            ca.issue(&Leaf::client("kubernetes-admin", Some("kubeadm:cluster-admins")), now()).unwrap();
        let (_, pem) = parse_x509_pem(certificate.as_bytes()).unwrap();
        let certificate = pem.parse_x509().unwrap();
        assert!(certificate.validity().not_before.timestamp() <= now().as_second() - 364 * 86_400);
        assert_eq!(certificate.subject().to_string(), "O=kubeadm:cluster-admins, CN=kubernetes-admin");
    }
}
