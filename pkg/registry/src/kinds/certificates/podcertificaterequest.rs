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
            spec.get(field).need();
        }
        let max = spec.get("maxExpirationSeconds");
        if max.int().is_some_and(|n| n < 3600) {
            max.invalid("must be in the range [3600, 7862400]");
        }
    },
    validate_update: Some(|new, old| new.get("spec").immutable(&old.get("spec"))),
    unconditional_update: false,
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::PLAIN
};
