//! Attachments of volumes to nodes.

use crate::kinds::core::persistentvolume::SOURCE;
use crate::kinds::defaults::{
    Rule::{In, Run},
    fill,
};
use crate::kinds::kind::{Kind, keep_meta};

/// Volume attachments.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        In(&["spec"], &[In(&["source"], &[In(&["inlineVolumeSpec"], SOURCE)])]),
        In(&["status"], &[Run(|status| fill(status, "attached", false))]),
    ],
    reset_status: true,
    unconditional_update: false,
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::PLAIN
};
