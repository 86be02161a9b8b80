//! Attachments of volumes to nodes.

use copepod_api::{FieldPath, names};

use crate::kinds::at::At;
use crate::kinds::core::persistentvolume::{self, SOURCE};
use crate::kinds::defaults::{
    Rule::{In, Run},
    fill,
};
use crate::kinds::kind::{Kind, keep_meta};
use crate::kinds::pod::volumes::csi_driver;

/// Volume attachments.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        In(&["spec"], &[In(&["source"], &[In(&["inlineVolumeSpec"], SOURCE)])]),
        In(&["status"], &[Run(|status| fill(status, "attached", false))]),
    ],
    reset_status: true,
    validate: spec,
    validate_update: Some(|new, old| {
        spec(new);
        new.get("spec").fixed(&old.get("spec"));
    }),
    unconditional_update: false,
    prepare_create: |_, new| new["status"] = serde_json::json!({"attached": false}),
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::PLAIN
};

fn spec(attachment: &At<'_>) {
    let at = attachment.get("spec");
    csi_driver(&at.get("attacher"));
    let source = at.get("source");
    let (inline, named) = (source.get("inlineVolumeSpec"), source.get("persistentVolumeName"));
    let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline.present(), named.present()) {
        (false, false) => source.required(why),
        (true, true) => source.forbidden(why),
        (false, true) => drop(named.need_because("must specify non empty persistentVolumeName")),
        (true, false) => persistentvolume::spec(&inline, true),
    }
    let node = at.get("nodeName");
    node.invalid_all(names::dns1123_subdomain(node.str()));
    named.named(FieldPath::new("spec.source.persistentVolumeName")).text(names::dns1123_subdomain);
}
