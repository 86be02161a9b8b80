//! Volumes, claims, storage classes, CSI objects and devices.

use copepod_api::{Quantity, meta};
use serde_json::Value;

use super::cells::{age, annotated, count, deleting, flag, joined, list, scalar, since, text, text_or, time};
use super::rows::Printer;

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Access modes in short: `RWO,ROX,RWX,RWOP`.
fn modes(object: &Value, pointer: &str) -> String {
    let given = list(object, pointer);
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let found: Vec<&str> = short
        .iter()
        .filter(|(long, _)| given.iter().any(|mode| mode == long))
        .map(|(_, short)| *short)
        .collect();
    found.join(",")
}

fn class(object: &Value) -> &str {
    meta::annotation(object, BETA_CLASS).unwrap_or_else(|| text(object, "/spec/storageClassName"))
}

fn phase(object: &Value) -> &str {
    if deleting(object) { "Terminating" } else { text(object, "/status/phase") }
}

fn amount(object: &Value, pointer: &str) -> String {
    let text = scalar(object, pointer).unwrap_or_else(|| "0".to_owned());
    text.parse::<Quantity>().map_or(text, |q| q.to_string())
}

/// Persistent volumes.
pub(super) static VOLUMES: Printer = Printer::new(
    "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*",
    |cx, object| {
        let claim = object.pointer("/spec/claimRef").filter(|c| !c.is_null());
        let claim =
            claim.map(|c| format!("{}/{}", text(c, "/namespace"), text(c, "/name"))).unwrap_or_default();
        vec![
            meta::name(object).into(),
            amount(object, "/spec/capacity/storage").into(),
            modes(object, "/spec/accessModes").into(),
            text(object, "/spec/persistentVolumeReclaimPolicy").into(),
            phase(object).into(),
            claim.into(),
            class(object).into(),
            text_or(object, "/spec/volumeAttributesClassName", "<unset>").into(),
            text(object, "/status/reason").into(),
            age(cx.now, object),
            text_or(object, "/spec/volumeMode", "<unset>").into(),
        ]
    },
);

/// Persistent volume claims.
pub(super) static CLAIMS: Printer = Printer::new(
    "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
    |cx, object| {
        let volume = text(object, "/spec/volumeName");
        let (capacity, access) = if volume.is_empty() {
            (String::new(), String::new())
        } else {
            (amount(object, "/status/capacity/storage"), modes(object, "/status/accessModes"))
        };
        vec![
            meta::name(object).into(),
            phase(object).into(),
            volume.into(),
            capacity.into(),
            access.into(),
            class(object).into(),
            text_or(object, "/spec/volumeAttributesClassName", "<unset>").into(),
            age(cx.now, object),
            text_or(object, "/spec/volumeMode", "<unset>").into(),
        ]
    },
);

fn is_default(class: &Value) -> bool {
    annotated(class, "storageclass.kubernetes.io/is-default-class")
        || annotated(class, "storageclass.beta.kubernetes.io/is-default-class")
}

/// The default class that counts: the newest, then the first by name.
fn effective_default<'a>(classes: &[&'a Value]) -> Option<&'a str> {
    let defaults = classes.iter().filter(|class| is_default(class));
    let newest = defaults.max_by(|a, b| {
        let made = |class: &Value| time(class, "/metadata/creationTimestamp");
        made(a).cmp(&made(b)).then_with(|| meta::name(b).cmp(meta::name(a)))
    });
    newest.map(|class| meta::name(class))
}

/// Storage classes.
pub(super) static CLASSES: Printer = Printer::new(
    "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
    |cx, object| {
        let name = meta::name(object);
        // A single object is not marked: only a list tells which default counts.
        let marked = cx.objects.len() > 1 || object.get("kind").is_none();
        let default = marked && effective_default(cx.objects) == Some(name);
        vec![
            format!("{name}{}", if default { " (default)" } else { "" }).into(),
            text(object, "/provisioner").into(),
            text_or(object, "/reclaimPolicy", "Delete").into(),
            text_or(object, "/volumeBindingMode", "Immediate").into(),
            flag(object, "/allowVolumeExpansion", false).into(),
            age(cx.now, object),
        ]
    },
);

/// Volume attributes classes.
pub(super) static ATTRIBUTES: Printer = Printer::new("Name|DriverName|Age", |cx, object| {
    vec![meta::name(object).into(), text(object, "/driverName").into(), age(cx.now, object)]
});

/// Volume attachments.
pub(super) static ATTACHMENTS: Printer =
    Printer::new("Name|Attacher:key|PV|Node|Attached:boolean|Age", |cx, object| {
        vec![
            meta::name(object).into(),
            text(object, "/spec/attacher").into(),
            text(object, "/spec/source/persistentVolumeName").into(),
            text(object, "/spec/nodeName").into(),
            flag(object, "/status/attached", false).into(),
            age(cx.now, object),
        ]
    });

/// CSI nodes.
pub(super) static CSI_NODES: Printer = Printer::new("Name|Drivers:integer|Age", |cx, object| {
    vec![meta::name(object).into(), count(object, "/spec/drivers").into(), age(cx.now, object)]
});

/// CSI drivers.
pub(super) static CSI_DRIVERS: Printer = Printer::new(
    "Name|AttachRequired:boolean|PodInfoOnMount:boolean|StorageCapacity:boolean|TokenRequests|RequiresRepublish:boolean|Modes|Age",
    |cx, object| {
        let tokens = match object.pointer("/spec/tokenRequests") {
            Some(Value::Array(requests)) => {
                requests.iter().map(|r| text(r, "/audience")).collect::<Vec<_>>().join(",")
            }
            _ => "<unset>".to_owned(),
        };
        let modes = joined(object, "/spec/volumeLifecycleModes", ",");
        vec![
            meta::name(object).into(),
            flag(object, "/spec/attachRequired", true).into(),
            flag(object, "/spec/podInfoOnMount", false).into(),
            flag(object, "/spec/storageCapacity", false).into(),
            tokens.into(),
            flag(object, "/spec/requiresRepublish", false).into(),
            if modes.is_empty() { "<none>".into() } else { modes.into() },
            age(cx.now, object),
        ]
    },
);

/// Resource claims.
pub(super) static RESOURCE_CLAIMS: Printer = Printer::new("Name|State|Age", |cx, object| {
    let allocated = object.pointer("/status/allocation").is_some_and(|a| !a.is_null());
    let mut states = Vec::new();
    if deleting(object) {
        states.push("deleted");
    }
    if allocated {
        states.push("allocated");
        if !list(object, "/status/reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !deleting(object) {
        states.push("pending");
    }
    vec![meta::name(object).into(), states.join(",").into(), age(cx.now, object)]
});

/// Resource slices.
pub(super) static RESOURCE_SLICES: Printer = Printer::new("Name|Node|Driver|Pool|Age", |cx, object| {
    vec![
        meta::name(object).into(),
        text(object, "/spec/nodeName").into(),
        text(object, "/spec/driver").into(),
        text(object, "/spec/pool/name").into(),
        age(cx.now, object),
    ]
});

/// Device taint rules.
pub(super) static DEVICE_TAINTS: Printer =
    Printer::new("Name|Key|Value|Effect|TimeAdded|Age", |cx, object| {
        let added = time(object, "/spec/taint/timeAdded");
        let added = if added.is_some() { since(cx.now, added) } else { String::new() };
        vec![
            meta::name(object).into(),
            text(object, "/spec/taint/key").into(),
            text(object, "/spec/taint/value").into(),
            text(object, "/spec/taint/effect").into(),
            added.into(),
            age(cx.now, object),
        ]
    });
