//! Volumes of a pod.

use std::collections::HashSet;

use copepod_api::{Quantity, names};

use super::mounts::Volumes;
use super::{env, projected};
use crate::kinds::at::At;
use crate::kinds::checks::{amounts, text};
use crate::kinds::core::persistentvolumeclaim;

/// Checks `volumes` and returns the sound ones by name.
pub(crate) fn volumes<'a>(spec: &At<'a>, pod_name: Option<&str>) -> Volumes<'a> {
    let list = spec.get("volumes");
    let made: Vec<String> = pod_name
        .filter(|name| !name.is_empty())
        .map(|pod| {
            list.items()
                .filter(|v| v.get("ephemeral").present())
                .map(|v| format!("{pod}-{}", v.get("name").str()))
                .collect()
        })
        .unwrap_or_default();
    let mut sound = Volumes::new();
    for at in list.items() {
        let before = at.errors();
        source(&at);
        let name = at.get("name");
        if name.need() {
            name.text(names::dns1123_label);
        }
        if sound.contains_key(name.str()) {
            name.duplicate();
        }
        if at.errors() == before {
            sound.insert(name.str(), at.clone());
        }
        let claim = at.at("persistentVolumeClaim.claimName");
        if made.iter().any(|name| name == claim.str()) {
            claim.invalid("must not reference a PVC that gets created for an ephemeral volume");
        }
    }
    sound
}

type Check = fn(&At<'_>);

/// Every volume type, in upstream's order, with its check.
const TYPES: &[(&str, Check)] = &[
    ("emptyDir", empty_dir),
    ("hostPath", host_path),
    ("gitRepo", git_repo),
    ("gcePersistentDisk", |at| need(at, &["pdName"])),
    ("awsElasticBlockStore", |at| need(at, &["volumeID"])),
    ("secret", secret),
    ("nfs", nfs),
    ("iscsi", |at| need(at, &["targetPortal", "iqn"])),
    ("glusterfs", |at| need(at, &["endpoints", "path"])),
    ("persistentVolumeClaim", |at| need(at, &["claimName"])),
    ("rbd", |at| need(at, &["monitors", "image"])),
    ("cinder", |at| need(at, &["volumeID"])),
    ("cephfs", |at| need(at, &["monitors"])),
    ("quobyte", |at| need(at, &["registry", "volume"])),
    ("downwardAPI", downward_api),
    ("fc", |_| {}),
    ("flexVolume", |at| need(at, &["driver"])),
    ("configMap", config_map),
    ("azureFile", |at| need(at, &["secretName", "shareName"])),
    ("flocker", |_| {}),
    ("vsphereVolume", |at| need(at, &["volumePath"])),
    ("photonPersistentDisk", |at| need(at, &["pdID"])),
    ("portworxVolume", |at| need(at, &["volumeID"])),
    ("azureDisk", |at| need(at, &["diskName", "diskURI"])),
    ("storageos", |_| {}),
    ("projected", projected::volume),
    ("scaleIO", |at| need(at, &["gateway", "system", "volumeName"])),
    ("csi", csi),
    ("ephemeral", ephemeral),
    ("image", image),
];

fn source(at: &At<'_>) {
    let mut found = 0;
    for (kind, check) in TYPES.iter().filter(|(kind, _)| at.get(kind).present()) {
        found += 1;
        if found > 1 {
            // Upstream's spellings.
            let shown = match *kind {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                kind => kind,
            };
            at.get(shown).forbidden("may not specify more than 1 volume type");
        } else {
            check(&at.get(kind));
        }
    }
    if found == 0 {
        at.required("must specify a volume type");
    }
}

fn need(at: &At<'_>, fields: &[&str]) {
    for field in fields {
        at.get(field).need();
    }
}

fn empty_dir(at: &At<'_>) {
    let limit = at.get("sizeLimit");
    if amounts::amount(&limit).is_some_and(|l| l < Quantity::ZERO) {
        limit.forbidden("SizeLimit field must be a valid resource quantity");
    }
}

/// A path on the node.
pub(crate) fn host_path(at: &At<'_>) {
    let path = at.get("path");
    if path.need() {
        text::no_backsteps(&path);
        at.get("type").one_of(&[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ]);
    }
}

fn git_repo(at: &At<'_>) {
    at.get("repository").need();
    text::descending_path(&at.get("directory"));
}

/// A share on an NFS server.
pub(crate) fn nfs(at: &At<'_>) {
    need(at, &["server", "path"]);
    let path = at.get("path");
    if !path.str().starts_with('/') {
        path.invalid_as(path.str(), "must be an absolute path");
    }
}

fn secret(at: &At<'_>) {
    at.get("secretName").need();
    text::file_mode(&at.get("defaultMode"));
    at.get("items").items().for_each(|item| key_to_path(&item));
}

fn config_map(at: &At<'_>) {
    at.get("name").need();
    text::file_mode(&at.get("defaultMode"));
    at.get("items").items().for_each(|item| key_to_path(&item));
}

/// One key of a ConfigMap or Secret as a file.
pub(crate) fn key_to_path(at: &At<'_>) {
    at.get("key").need();
    at.get("path").need();
    text::local_path(&at.get("path"));
    text::file_mode(&at.get("mode"));
}

fn downward_api(at: &At<'_>) {
    text::file_mode(&at.get("defaultMode"));
    for item in at.get("items").items() {
        // Upstream names the volume, not the item.
        downward_file(&item.named(at.path().clone()));
    }
}

/// One field of the pod as a file.
pub(crate) fn downward_file(at: &At<'_>) {
    at.get("path").need();
    text::local_path(&at.get("path"));
    let (field, resource) = (at.get("fieldRef"), at.get("resourceFieldRef"));
    match (field.present(), resource.present()) {
        (true, both) => {
            env::field_ref(&field, env::VOLUME_FIELDS);
            if both {
                at.invalid_as(
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                );
            }
        }
        (false, true) => env::resource_ref(&resource, true),
        (false, false) => at.required("one of fieldRef and resourceFieldRef is required"),
    }
    text::file_mode(&at.get("mode"));
}

/// The name of a CSI driver.
pub(crate) fn csi_driver(at: &At<'_>) {
    if !at.need() {
        return;
    }
    if at.str().len() > 63 {
        at.push(copepod_api::FieldError::too_long(at.path(), 63));
    }
    let lower = at.str().to_lowercase();
    names::dns1123_subdomain(&lower).into_iter().for_each(|error| at.invalid(error));
}

fn csi(at: &At<'_>) {
    csi_driver(&at.get("driver"));
    let secret = at.get("nodePublishSecretRef");
    if secret.present() && secret.get("name").need() {
        names::dns1123_subdomain(secret.get("name").str())
            .into_iter()
            .for_each(|error| at.get("name").invalid_as(secret.get("name").str(), error));
    }
}

fn ephemeral(at: &At<'_>) {
    let template = at.get("volumeClaimTemplate");
    if !template.present() {
        return template.required("");
    }
    crate::kinds::checks::labels::annotations(&template.at("metadata.annotations"));
    crate::kinds::checks::labels::labels(&template.at("metadata.labels"));
    let mut other: HashSet<&str> = HashSet::new();
    for (field, value) in template.get("metadata").entries() {
        if !matches!(field, "annotations" | "labels" | "creationTimestamp")
            && !value.is_empty()
            && other.insert(field)
        {
            template.get("metadata").get(field).forbidden("cannot be set");
        }
    }
    persistentvolumeclaim::spec(&template.get("spec"));
}

fn image(at: &At<'_>) {
    at.get("reference").need();
    at.get("pullPolicy").need_one_of(&["Always", "IfNotPresent", "Never"]);
}
