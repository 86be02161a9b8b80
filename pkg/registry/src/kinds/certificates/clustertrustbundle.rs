//! Cluster trust bundles.

use crate::kinds::at::At;
use crate::kinds::checks::text;
use crate::kinds::kind::Kind;

/// Cluster trust bundles.
pub(crate) static KIND: Kind = Kind {
    unconditional_update: false,
    validate,
    name: copepod_api::names::path_segment,
    validate_update: Some(|new, old| {
        validate(new);
        new.at("spec.signerName").immutable(&old.at("spec.signerName"));
    }),
    ..Kind::PLAIN
};

fn validate(bundle: &At<'_>) {
    let (name, signer) = (bundle.at("metadata.name"), bundle.at("spec.signerName"));
    if !signer.is_empty() {
        text::signer_name(&signer);
        let prefix = format!("{}:", signer.str().replace('/', ":"));
        if !name.str().starts_with(&prefix) {
            name.invalid(format!(
                "ClusterTrustBundle for signerName {} must be named with prefix {prefix}",
                signer.str()
            ));
        }
    } else if name.str().contains(':') {
        name.invalid("ClusterTrustBundle without signer name must not have \":\" in its name");
    }
    let trust = bundle.at("spec.trustBundle");
    if !trust.str().contains("-----BEGIN CERTIFICATE-----") {
        trust.invalid_as("<value omitted>", "at least one trust anchor must be provided");
    }
}
