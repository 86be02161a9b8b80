//! Security contexts of pods and containers.

use std::collections::HashSet;

use copepod_api::names;

use crate::kinds::at::At;
use crate::kinds::checks::text;

/// A container's context.
pub(crate) fn container(at: &At<'_>, spec: &At<'_>) {
    if !at.present() {
        return;
    }
    text::user_id(&at.get("runAsUser"));
    text::user_id(&at.get("runAsGroup"));
    let proc_mount = at.get("procMount");
    proc_mount.one_of(&["Default", "Unmasked"]);
    let host_users = spec.get("hostUsers").value() != Some(&false.into());
    if host_users && proc_mount.str() == "Unmasked" {
        proc_mount.invalid("`hostUsers` must be false to use `Unmasked`");
    }
    seccomp(&at.get("seccompProfile"));
    if at.get("allowPrivilegeEscalation").value() == Some(&false.into()) {
        if at.get("privileged").bool() {
            at.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
        }
        if at.at("capabilities.add").strings().contains(&"CAP_SYS_ADMIN") {
            at.invalid("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    app_armor(&at.get("appArmorProfile"));
    windows(&at.get("windowsOptions"));
}

/// The pod's context.
pub(crate) fn pod(spec: &At<'_>) {
    let at = spec.get("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        text::user_id(&at.get(field));
    }
    at.get("supplementalGroups").items().for_each(|group| text::user_id(&group));
    sysctls(&at.get("sysctls"), spec);
    at.get("fsGroupChangePolicy").one_of(&["Always", "OnRootMismatch"]);
    seccomp(&at.get("seccompProfile"));
    app_armor(&at.get("appArmorProfile"));
    windows(&at.get("windowsOptions"));
    at.get("supplementalGroupsPolicy").one_of(&["Merge", "Strict"]);
    at.get("seLinuxChangePolicy").one_of(&["MountOption", "Recursive"]);
}

const KIB_64: usize = 64 << 10;

fn windows(at: &At<'_>) {
    at.get("gmsaCredentialSpecName").text(names::dns1123_subdomain);
    let spec = at.get("gmsaCredentialSpec");
    if spec.present() && spec.is_empty() {
        spec.invalid("gmsaCredentialSpec cannot be an empty string");
    } else if spec.str().len() > KIB_64 {
        spec.invalid("gmsaCredentialSpec size must be under 64 KiB");
    }
    let user = at.get("runAsUserName");
    if user.present()
        && let Some(wrong) = wrong_user(user.str())
    {
        user.invalid(wrong);
    }
}

/// What is wrong with a Windows user, who may have a domain before a backslash.
fn wrong_user(text: &str) -> Option<&'static str> {
    let (domain, user) = text.split_once('\\').unwrap_or(("", text));
    if text.is_empty() {
        Some("runAsUserName cannot be an empty string")
    } else if text.contains(char::is_control) {
        Some("runAsUserName cannot contain control characters")
    } else if user.contains('\\') {
        Some("runAsUserName cannot contain more than one backslash")
    } else if domain.len() >= 256 {
        Some("runAsUserName's Domain length must be under 256 characters")
    } else if user.is_empty() {
        Some("runAsUserName's User cannot be empty")
    } else if user.len() > 104 {
        Some("runAsUserName's User length must not be longer than 104 characters")
    } else if user.bytes().all(|b| matches!(b, b'.' | b' ')) {
        Some("runAsUserName's User cannot contain only periods or spaces")
    } else if user.contains(['"', '/', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        Some(r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#)
    } else {
        None
    }
}

fn sysctls(list: &At<'_>, spec: &At<'_>) {
    let mut seen = HashSet::new();
    for at in list.items() {
        let name = at.get("name");
        if name.is_empty() {
            name.required("");
        } else if !is_sysctl(name.str()) {
            name.invalid("must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$");
        } else if seen.contains(name.str()) {
            name.duplicate();
        }
        let dotted = name.str().replace('/', ".");
        if spec.get("hostNetwork").bool() && dotted.starts_with("net.") {
            name.invalid("may not be specified when 'hostNetwork' is true");
        } else if spec.get("hostIPC").bool() && is_ipc(&dotted) {
            name.invalid("may not be specified when 'hostIPC' is true");
        }
        seen.insert(name.str());
    }
}

fn is_ipc(name: &str) -> bool {
    matches!(name, "kernel.sem")
        || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|p| name.starts_with(p))
}

fn is_sysctl(name: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let segment = |s: &str| {
        let bytes = s.as_bytes();
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
    };
    name.len() <= 253 && name.split(['.', '/']).all(segment)
}

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

fn seccomp(at: &At<'_>) {
    if !at.present() {
        return;
    }
    let (kind, profile) = (at.get("type"), at.get("localhostProfile"));
    if kind.is_empty() {
        kind.required("type is required when seccompProfile is set");
    } else {
        kind.one_of(PROFILES);
    }
    match (kind.str(), profile.present()) {
        ("Localhost", false) => profile.required("must be set when seccomp type is Localhost"),
        ("Localhost", true) => text::descending_path(&profile),
        (_, true) => {
            let shown = at.value().cloned().unwrap_or_default();
            profile.invalid_as(shown, "can only be set when seccomp type is Localhost");
        }
        (_, false) => {}
    }
}

fn app_armor(at: &At<'_>) {
    if !at.present() {
        return;
    }
    let (kind, profile) = (at.get("type"), at.get("localhostProfile"));
    let missing = "must be set when AppArmor type is Localhost";
    match kind.str() {
        "Localhost" if !profile.present() => profile.required(missing),
        "Localhost" => {
            if profile.str().trim() != profile.str() {
                profile.invalid("must not be padded with whitespace");
            } else if profile.is_empty() {
                profile.required(missing);
            }
            if profile.str().len() > 4095 {
                profile.push(copepod_api::FieldError::too_long(profile.path(), 4095));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if profile.present() {
                profile.invalid("can only be set when AppArmor type is Localhost");
            }
        }
        "" => kind.required("type is required when appArmorProfile is set"),
        _ => kind.not_supported(PROFILES),
    }
}
