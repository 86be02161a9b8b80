//! Storage version migrations.

use crate::kinds::kind::{Kind, keep_meta};

/// Storage version migrations.
pub(crate) static KIND: Kind = Kind {
    reset_status: true,
    validate: |migration| {
        let target = migration.at("spec.resource");
        target.get("resource").need_because("resource is required to be set");
        let group = target.get("group");
        if !group.is_empty() {
            group.text(copepod_api::names::dns1123_subdomain);
        }
    },
    validate_update: Some(|new, old| new.get("spec").immutable(&old.get("spec"))),
    unconditional_update: false,
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::PLAIN
};
