//! What a certificate should be.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyUsagePurpose, SanType};
use x509_parser::prelude::{GeneralName, X509Certificate};

/// What a certificate is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// A client proves who it is.
    Client,
    /// A server proves who it is.
    Server,
    /// Both, as etcd's members need.
    Both,
}

/// The description of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The common name: the user, for a client certificate.
    pub common_name: String,
    /// The organization: the group, for a client certificate. One at most; CSRs with more are signed elsewhere.
    pub organization: Option<String>,
    /// DNS names a server answers to.
    pub dns: BTreeSet<String>,
    /// Addresses a server answers at.
    pub ips: BTreeSet<IpAddr>,
    /// Client, server or both.
    pub usage: Usage,
}

impl Leaf {
    /// A client certificate for a user in a group.
    #[must_use]
    pub fn client(user: &str, group: Option<&str>) -> Self {
        Self {
            common_name: user.to_owned(),
            organization: group.map(str::to_owned),
            dns: BTreeSet::new(),
            ips: BTreeSet::new(),
            usage: Usage::Client,
        }
    }

    /// A server certificate for names and addresses.
    #[must_use]
    pub fn server(name: &str, dns: BTreeSet<String>, ips: BTreeSet<IpAddr>) -> Self {
        Self { common_name: name.to_owned(), organization: None, dns, ips, usage: Usage::Server }
    }

    /// The same certificate for another use.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    pub(crate) fn params(&self) -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(organization) = &self.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization.as_str());
        }
        params.distinguished_name.push(DnType::CommonName, self.common_name.as_str());
        for name in &self.dns {
            params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
        }
        params.subject_alt_names.extend(self.ips.iter().map(|ip| SanType::IpAddress(*ip)));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = match self.usage {
            Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Usage::Both => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        Ok(params)
    }

    /// Whether a certificate already says all that this description asks for (it may say more).
    pub(crate) fn covered_by(&self, certificate: &X509Certificate<'_>) -> bool {
        let subject = certificate.subject();
        let common_name = subject.iter_common_name().any(|a| a.as_str() == Ok(self.common_name.as_str()));
        let organization = self
            .organization
            .as_deref()
            .is_none_or(|want| subject.iter_organization().any(|a| a.as_str() == Ok(want)));
        let (dns, ips) = alternative_names(certificate);
        common_name && organization && self.dns.is_subset(&dns) && self.ips.is_subset(&ips)
    }
}

fn alternative_names(certificate: &X509Certificate<'_>) -> (BTreeSet<String>, BTreeSet<IpAddr>) {
    let (mut dns, mut ips) = (BTreeSet::new(), BTreeSet::new());
    let names = certificate.subject_alternative_name().ok().flatten();
    for name in names.iter().flat_map(|extension| &extension.value.general_names) {
        match name {
            GeneralName::DNSName(text) => {
                dns.insert((*text).to_owned());
            }
            GeneralName::IPAddress(bytes) => {
                ips.extend(<[u8; 4]>::try_from(*bytes).map(IpAddr::from));
                ips.extend(<[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            }
            _ => {}
        }
    }
    (dns, ips)
}
