//! Persistent volumes.

use copepod_api::names;
use serde_json::{Value, json};

use super::persistentvolumeclaim::access_modes;
use crate::hooks::HookContext;
use crate::kinds::at::{At, same};
use crate::kinds::checks::warn;
use crate::kinds::checks::{amounts, topology};
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
    validate: |volume| spec(&volume.get("spec"), false),
    validate_update: Some(update),
    warnings: |new, _| {
        warn::about(new, copepod_api::FieldPath::root(), |volume, warnings| {
            let spec = volume.get("spec");
            if spec.is("persistentVolumeReclaimPolicy", "Recycle") {
                warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
            }
            let terms = spec.at("nodeAffinity.required.nodeSelectorTerms");
            terms.items().for_each(|term| warn::expressions(&term, warnings));
            warn::out_of_use(&spec, crate::kinds::pod::OLD_VOLUMES, warnings);
        })
    },
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

/// Every volume type, with the fields it needs.
const TYPES: &[(&str, &[&str])] = &[
    ("hostPath", &["path"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("nfs", &["server", "path"]),
    ("rbd", &["monitors", "image"]),
    ("quobyte", &["registry", "volume"]),
    ("cephfs", &["monitors"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("cinder", &["volumeID"]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("local", &["path"]),
    ("storageos", &[]),
    ("csi", &["driver", "volumeHandle"]),
];

/// What is wrong with a volume's spec; `inline` in an attachment.
pub(crate) fn spec(at: &At<'_>, inline: bool) {
    let modes = at.get("accessModes");
    modes.need();
    access_modes(&modes);
    if !inline {
        capacity(&at.get("capacity"));
    }
    let policy = at.get("persistentVolumeReclaimPolicy");
    policy.one_of(&["Delete", "Recycle", "Retain"]);
    let mounted = at.at("hostPath.path").str();
    if policy.str() == "Recycle"
        && !mounted.is_empty()
        && mounted.split('/').all(|part| matches!(part, "" | "."))
    {
        policy.forbidden("may not be 'recycle' for a hostPath mount of '/'");
    }
    let affinity = at.get("nodeAffinity");
    if affinity.present() {
        if affinity.get("required").present() {
            topology::node_selector(&affinity.get("required"));
        } else {
            affinity.get("required").required("must specify required node constraints");
        }
    }
    source(at);
    let class = at.get("storageClassName");
    if !class.is_empty() {
        class.text(names::dns1123_subdomain);
    }
    at.get("volumeMode").one_of(&["Block", "Filesystem"]);
    let attributes = at.get("volumeAttributesClassName");
    if attributes.present() {
        if attributes.need_because("an empty string is disallowed") {
            attributes.text(names::dns1123_subdomain);
        }
        if !at.get("csi").present() {
            at.get("csi").required("has to be specified when using volumeAttributesClassName");
        }
    }
}

fn capacity(at: &At<'_>) {
    at.need();
    if !at.key("storage").present() || at.map().is_some_and(|m| m.len() > 1) {
        let shown = at.value().cloned().unwrap_or(Value::Null);
        at.push(copepod_api::FieldError::not_supported(at.path(), shown, &["storage"]));
    }
    for (_, place) in at.entries() {
        amounts::positive(&place);
    }
}

fn source(at: &At<'_>) {
    let mut found = 0;
    for (kind, fields) in TYPES.iter().filter(|(kind, _)| at.get(kind).present()) {
        found += 1;
        let place = at.get(kind);
        if found > 1 {
            // Upstream's spelling.
            let shown = if *kind == "cephfs" { "cephFS" } else { kind };
            at.get(shown).forbidden("may not specify more than 1 volume type");
            continue;
        }
        match *kind {
            "hostPath" => crate::kinds::pod::volumes::host_path(&place),
            "nfs" => crate::kinds::pod::volumes::nfs(&place),
            "csi" => {
                crate::kinds::pod::volumes::csi_driver(&place.get("driver"));
                place.get("volumeHandle").need();
            }
            _ => {
                for field in *fields {
                    place.get(field).need();
                }
            }
        }
        if *kind == "local" && !at.get("nodeAffinity").present() {
            at.get("nodeAffinity").required("Local volume requires node affinity");
        }
    }
    if found == 0 {
        at.required("must specify a volume type");
    }
}

fn update(new: &At<'_>, old: &At<'_>) {
    let (at, was) = (new.get("spec"), old.get("spec"));
    spec(&at, false);
    let changed: Vec<&str> = TYPES
        .iter()
        .map(|(kind, _)| *kind)
        .filter(|kind| !same(without_expand(&at.get(kind)).as_ref(), without_expand(&was.get(kind)).as_ref()))
        .collect();
    if !changed.is_empty() {
        let (Some(before), Some(now)) = (was.value(), at.value()) else { return };
        at.get("persistentvolumesource").forbidden(format!(
            "spec.persistentvolumesource is immutable after creation\n{}",
            crate::kinds::pod::diff(before, now)
        ));
    }
    let mode = at.get("volumeMode").named(copepod_api::FieldPath::new("volumeMode"));
    mode.immutable(&was.get("volumeMode"));
    if was.get("nodeAffinity").present()
        && !same(at.get("nodeAffinity").value(), was.get("nodeAffinity").value())
    {
        let affinity = at.get("nodeAffinity").named(copepod_api::FieldPath::new("nodeAffinity"));
        affinity.invalid("field is immutable, except for updating from beta label to GA");
    }
    let (class, had) = (at.get("volumeAttributesClassName"), was.get("volumeAttributesClassName"));
    if had.present() && !class.present() {
        class.forbidden("update from non-nil value to nil is forbidden");
    }
}

/// The secret for expansion may be added later.
fn without_expand(at: &At<'_>) -> Option<Value> {
    let mut value = at.value().cloned()?;
    if let Some(map) = value.as_object_mut() {
        map.remove("controllerExpandSecretRef");
    }
    Some(value)
}
