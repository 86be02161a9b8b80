//! Mounts and block devices of a container.

use std::collections::{HashMap, HashSet};

use crate::kinds::at::At;
use crate::kinds::checks::text;

/// Sound volumes by name.
pub(crate) type Volumes<'a> = HashMap<&'a str, At<'a>>;

/// `volumeMounts`.
pub(crate) fn mounts(container: &At<'_>, volumes: &Volumes<'_>) {
    let list = container.get("volumeMounts");
    let devices = container.get("volumeDevices");
    let mut paths = HashSet::new();
    for at in list.items() {
        let (name, path) = (at.get("name"), at.get("mountPath"));
        name.need();
        if !volumes.contains_key(name.str()) {
            name.push(copepod_api::FieldError::not_found(name.path(), name.str()));
        }
        path.need();
        if !paths.insert(path.str()) {
            path.invalid_as(path.str(), "must be unique");
        }
        if devices.items().any(|d| d.is("name", name.str())) {
            name.invalid("must not already exist in volumeDevices");
        }
        if devices.items().any(|d| d.is("devicePath", path.str())) {
            path.invalid("must not already exist as a path in volumeDevices");
        }
        let (sub, expr) = (at.get("subPath"), at.get("subPathExpr"));
        if !sub.is_empty() {
            text::descending_path(&of_list(&list, "subPath", &sub));
        }
        if !expr.is_empty() {
            if !sub.is_empty() {
                expr.invalid("subPathExpr and subPath are mutually exclusive");
            }
            text::descending_path(&of_list(&list, "subPathExpr", &expr));
        }
        propagation(&of_list(&list, "mountPropagation", &at.get("mountPropagation")), container);
        recursive_read_only(&of_list(&list, "recursiveReadOnly", &at.get("recursiveReadOnly")), &at);
    }
}

/// A field of an item under the list's path, as upstream names it.
fn of_list<'a>(list: &At<'a>, field: &str, value: &At<'a>) -> At<'a> {
    list.get(field).holding(value)
}

fn propagation(at: &At<'_>, container: &At<'_>) {
    at.one_of(&["Bidirectional", "HostToContainer", "None"]);
    if at.str() == "Bidirectional" && !container.at("securityContext.privileged").bool() {
        at.forbidden("Bidirectional mount propagation is available only to privileged containers");
    }
}

fn recursive_read_only(at: &At<'_>, mount: &At<'_>) {
    match at.str() {
        "" if !at.present() => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.get("readOnly").bool() {
                at.forbidden("may only be specified when readOnly is true");
            }
            let propagation = mount.get("mountPropagation");
            if propagation.present() && propagation.str() != "None" {
                at.forbidden("may only be specified when mountPropagation is None or not specified");
            }
        }
        _ => at.not_supported(&["Disabled", "Enabled", "IfPossible"]),
    }
}

/// `volumeDevices`.
pub(crate) fn devices(container: &At<'_>, volumes: &Volumes<'_>) {
    let mounts = container.get("volumeMounts");
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for at in container.get("volumeDevices").items() {
        let (name, path) = (at.get("name"), at.get("devicePath"));
        name.need();
        if names.contains(name.str()) {
            name.invalid("must be unique");
        }
        match volumes.get(name.str()) {
            Some(v) if v.get("persistentVolumeClaim").present() || v.get("ephemeral").present() => {}
            Some(_) => {
                name.invalid(
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                );
            }
            None => name.push(copepod_api::FieldError::not_found(name.path(), name.str())),
        }
        path.need();
        if paths.contains(path.str()) {
            path.invalid("must be unique");
        }
        if path.str().split('/').any(|part| part == "..") {
            path.invalid("can not contain backsteps ('..')");
        } else {
            paths.insert(path.str());
        }
        if mounts.items().any(|m| m.is("name", name.str())) {
            name.invalid("must not already exist in volumeMounts");
        }
        if mounts.items().any(|m| m.is("mountPath", path.str())) {
            path.invalid("must not already exist as a path in volumeMounts");
        }
        names.insert(name.str());
    }
}
