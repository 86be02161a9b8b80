//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction.

use async_trait::async_trait;
use base64::Engine as _;
use copepod_api::{ApiResult, field::quote};
use copepod_registry::{Admission, Attributes, Operation};
use serde_json::Value;
use x509_parser::prelude::{FromDer as _, X509CertificationRequest};

use super::{Deps, creates, forbid, text};
use crate::authz::Check;

const GROUP: &str = "certificates.k8s.io";

/// Approving needs the verb `approve` on the signer.
#[derive(Debug)]
pub(super) struct CertificateApproval(pub Deps);

/// Signing needs the verb `sign` on the signer.
#[derive(Debug)]
pub(super) struct CertificateSigning(pub Deps);

/// Nobody gets a client certificate of `system:masters`.
#[derive(Debug)]
pub(super) struct CertificateSubjectRestriction;

fn is_sub(attributes: &Attributes<'_>, subresource: &str) -> bool {
    attributes.resource.group == GROUP
        && attributes.resource.resource == "certificatesigningrequests"
        && attributes.subresource == subresource
        && attributes.operation == Operation::Update
}

/// Whether the user has `verb` on the signer itself or on all signers of its domain.
async fn allowed(deps: &Deps, attributes: &Attributes<'_>, verb: &str, signer: &str) -> bool {
    let domain = signer.split_once('/').map_or_else(String::new, |(domain, _)| format!("{domain}/*"));
    for name in [signer, domain.as_str()] {
        let check = Check {
            user: attributes.user,
            verb,
            group: GROUP,
            resource: "signers",
            name,
            is_resource: true,
            ..Check::default()
        };
        if deps.authorizer.decide(&check).await.allowed {
            return true;
        }
    }
    false
}

#[async_trait]
impl Admission for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let Some(old) = attributes.old.filter(|_| is_sub(attributes, "approval")) else { return Ok(()) };
        let signer = text(&old["spec"], "signerName");
        if allowed(&self.0, attributes, "approve", signer).await {
            return Ok(());
        }
        let why = format!("user not permitted to approve requests with signerName {}", quote(signer));
        Err(forbid(attributes, object, why))
    }
}

#[async_trait]
impl Admission for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let (Some(old), Some(new)) = (attributes.old, object) else { return Ok(()) };
        let changed =
            ["certificate", "conditions"].iter().any(|f| old["status"].get(f) != new["status"].get(f));
        if !changed || !is_sub(attributes, "status") {
            return Ok(());
        }
        let signer = text(&old["spec"], "signerName");
        if allowed(&self.0, attributes, "sign", signer).await {
            return Ok(());
        }
        let why = format!("user not permitted to sign requests with signerName {}", quote(signer));
        Err(forbid(attributes, object, why))
    }
}

#[async_trait]
impl Admission for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
        let Some(csr) = object.filter(|_| creates(attributes, GROUP, "certificatesigningrequests")) else {
            return Ok(());
        };
        if text(&csr["spec"], "signerName") != SIGNER {
            return Ok(());
        }
        match organizations(text(&csr["spec"], "request")) {
            None => Err(forbid(
                attributes,
                object,
                "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST",
            )),
            Some(groups) if groups.iter().any(|g| g == "system:masters") => {
                let why = format!("use of {SIGNER} signer with system:masters group is not allowed");
                Err(forbid(attributes, object, why))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Reads something of a request's subject; `None` when the request cannot be read.
fn subject<T>(encoded: &str, read: impl Fn(&x509_parser::x509::X509Name<'_>) -> T) -> Option<T> {
    let pem = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
    let block = x509_parser::pem::Pem::iter_from_buffer(&pem).next()?.ok()?;
    let (_, request) = X509CertificationRequest::from_der(&block.contents).ok()?;
    Some(read(&request.certification_request_info.subject))
}

/// Every O of a request's subject.
fn organizations(encoded: &str) -> Option<Vec<String>> {
    subject(encoded, |s| s.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect())
}

/// The CN of a request's subject, empty when it has none.
pub(super) fn common_name(encoded: &str) -> Option<String> {
    subject(encoded, |s| {
        s.iter_common_name().next().and_then(|n| n.as_str().ok()).unwrap_or_default().to_owned()
    })
}
