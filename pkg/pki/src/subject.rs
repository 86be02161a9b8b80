//! Whom a client certificate names.

use x509_parser::prelude::{FromDer, X509Certificate};

/// The subject of a certificate: a user and its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The common name: the user.
    pub user: String,
    /// The organizations: the groups.
    pub groups: Vec<String>,
}

/// Reads the subject of a certificate in DER; `None` when it is none or names nobody.
#[must_use]
pub fn subject(der: &[u8]) -> Option<Subject> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
    (!user.is_empty()).then_some(Subject { user, groups })
}
