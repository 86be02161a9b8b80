//! Persistent volumes.

use serde_json::{Value, json};

use crate::hooks::HookContext;
use crate::kinds::defaults::{
    Lit::S,
    Object,
    Rule::{self, Amounts, In, Nil, Run, Zero},
    map_mut, text,
};
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::AZURE_DISK;

/// Defaults of a volume's spec, also inline in attachments.
pub(crate) const SOURCE: &[Rule] = &[
    In(&["iscsi"], &[Zero("iscsiInterface", S("default"))]),
    In(
        &["rbd"],
        &[Zero("pool", S("rbd")), Zero("user", S("admin")), Zero("keyring", S("/etc/ceph/keyring"))],
    ),
    In(&["azureDisk"], AZURE_DISK),
    In(&["scaleIO"], &[Zero("storageMode", S("ThinProvisioned")), Zero("fsType", S("xfs"))]),
    In(&["hostPath"], &[Nil("type", S(""))]),
    Amounts(&["capacity"]),
];

/// Persistent volumes.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        Run(pending),
        In(
            &["spec"],
            &[Zero("persistentVolumeReclaimPolicy", S("Retain")), Nil("volumeMode", S("Filesystem"))],
        ),
        In(&["spec"], SOURCE),
    ],
    prepare_create: |cx, new| {
        if let Some(object) = new.as_object_mut() {
            object.insert(
                "status".to_owned(),
                json!({"phase": "Pending", "lastPhaseTransitionTime": time(cx)}),
            );
        }
    },
    prepare_status,
    ..Kind::PLAIN
};

fn time(cx: &HookContext<'_>) -> String {
    cx.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn pending(volume: &mut Object) {
    let status = map_mut(volume, "status");
    if text(status, "phase").is_empty() {
        status.insert("phase".to_owned(), "Pending".into());
    }
}

/// The time of the last change of phase is the server's, unless the client gives another.
fn prepare_status(cx: &HookContext<'_>, new: &mut Value, old: &Value) {
    let of = |object: &Value, field: &str| object.get("status").and_then(|s| s.get(field)).cloned();
    let (phase, was) = (of(new, "phase"), of(old, "phase"));
    let (at, was_at) = (of(new, "lastPhaseTransitionTime"), of(old, "lastPhaseTransitionTime"));
    let value = match (phase == was, at) {
        (true, None) => was_at,
        (false, at) if at.is_none() || at == was_at => Some(time(cx).into()),
        _ => return,
    };
    if let (Some(object), Some(value)) = (new.as_object_mut(), value) {
        map_mut(object, "status").insert("lastPhaseTransitionTime".to_owned(), value);
    }
}
