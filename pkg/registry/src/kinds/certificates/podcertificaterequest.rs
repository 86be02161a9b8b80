//! Pod certificate requests.

use copepod_api::names;

use crate::kinds::checks::text;
use crate::kinds::defaults::{
    Lit::I,
    Rule::{In, Nil},
};
use crate::kinds::kind::{Kind, keep_meta};

/// Pod certificate requests.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["spec"], &[Nil("maxExpirationSeconds", I(86400))])],
    reset_status: true,
    validate: |request| {
        let spec = request.get("spec");
        text::signer_name(&spec.get("signerName"));
        for field in ["podName", "serviceAccountName", "nodeName"] {
            spec.get(field).invalid_all(names::dns1123_subdomain(spec.get(field).str()));
        }
        for field in ["podUID", "serviceAccountUID", "nodeUID"] {
            if spec.get(field).is_empty() {
                spec.get(field).invalid("must not be empty");
            }
        }
        let (plain, proof) =
            (!spec.get("pkixPublicKey").is_empty(), !spec.get("proofOfPossession").is_empty());
        let request = !spec.get("stubPKCS10Request").is_empty();
        if request == (plain || proof) || plain != proof {
            spec.invalid_hidden(
                "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set",
            );
        }
        let max = spec.get("maxExpirationSeconds");
        let own = spec.get("signerName").str().split('/').next().is_some_and(kubernetes_domain);
        let most = if own { 86400 } else { 7_862_400 };
        if max.int().is_some_and(|n| !(3600..=most).contains(&n)) {
            max.invalid(format!("must be in the range [3600, {most}]"));
        }
    },
    validate_update: Some(|new, old| new.get("spec").immutable(&old.get("spec"))),
    unconditional_update: false,
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::PLAIN
};

/// Whether a signer's domain is upstream's own.
fn kubernetes_domain(domain: &str) -> bool {
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}
