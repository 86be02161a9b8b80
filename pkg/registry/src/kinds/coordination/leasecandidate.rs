//! Candidates for leases.

use crate::kinds::kind::Kind;

/// Lease candidates.
pub(crate) static KIND: Kind = Kind {
    create_on_update: true,
    unconditional_update: false,
    validate: |candidate| {
        for field in ["leaseName", "binaryVersion", "strategy"] {
            candidate.get("spec").get(field).need();
        }
    },
    name: crate::kinds::checks::text::config_key,
    ..Kind::PLAIN
};
