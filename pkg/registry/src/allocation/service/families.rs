//! Which address families a Service gets, and which addresses a change takes and gives back. Pure.

use copepod_api::{FieldError, FieldErrors, FieldPath};
use serde_json::json;

use super::spec::Spec;

const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

fn other(family: &str) -> String {
    if family == "IPv4" { "IPv6" } else { "IPv4" }.to_owned()
}

/// Whether a Service that prefers two families, and did before, is left as it is.
fn settled(spec: &Spec, old: &Spec) -> bool {
    spec.policy.as_deref() == Some(PREFER)
        && old.policy.as_deref().is_none_or(|policy| policy == PREFER)
        && spec.type_ == old.type_
        && !spec.external_name()
        && spec.cluster_ips == old.cluster_ips
        && spec.families == old.families
}

/// Settles policy and families.
pub(super) fn settle(spec: &mut Spec, old: Option<&Spec>, configured: &[&str]) -> Result<(), FieldErrors> {
    if spec.external_name() || old.is_some_and(|old| settled(spec, old)) {
        return Ok(());
    }
    let bare = spec.cluster_ip == "None" && !spec.selects;
    let inherited = old.and_then(|old| old.policy.clone());
    let default = if bare { REQUIRE } else { SINGLE };
    let policy = spec.policy.get_or_insert_with(|| inherited.unwrap_or_else(|| default.to_owned())).clone();
    if let Some(old) = old {
        narrow(spec, old, &policy)?;
    }
    check_policy(spec, &policy)?;
    infer(spec, configured)?;
    let first = configured.first().copied().unwrap_or("IPv4");
    if bare {
        if spec.families.is_empty() {
            spec.families.push(first.to_owned());
        }
        widen(spec, &policy, true);
        return Ok(());
    }
    check_configured(spec, &policy, configured)?;
    if spec.families.is_empty() {
        spec.families.push(first.to_owned());
    }
    widen(spec, &policy, configured.len() == 2);
    Ok(())
}

/// Adds the second family where it is wanted and there.
fn widen(spec: &mut Spec, policy: &str, possible: bool) {
    if policy != SINGLE
        && possible
        && let [family] = spec.families.as_slice()
    {
        let second = other(family);
        spec.families.push(second);
    }
}

/// A change to one family keeps the first; fewer addresses without that change are an error.
fn narrow(spec: &mut Spec, old: &Spec, policy: &str) -> Result<(), FieldErrors> {
    if policy == SINGLE {
        if spec.cluster_ips == old.cluster_ips {
            spec.cluster_ips.truncate(1);
        }
        if spec.families == old.families {
            spec.families.truncate(1);
        }
        return Ok(());
    }
    let field = FieldPath::new("spec").child("ipFamilyPolicy");
    let mut errors = FieldErrors::new();
    let reduced = |new: &[String], old: &[String]| {
        !new.is_empty() && new.len() < old.len() && new.first() == old.first()
    };
    if reduced(&spec.cluster_ips, &old.cluster_ips) {
        errors.push(FieldError::invalid(
            &field,
            policy,
            "must be 'SingleStack' to release the secondary cluster IP",
        ));
    }
    if reduced(&spec.families, &old.families) {
        errors.push(FieldError::invalid(
            &field,
            policy,
            "must be 'SingleStack' to release the secondary IP family",
        ));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn check_policy(spec: &Spec, policy: &str) -> Result<(), FieldErrors> {
    let field = FieldPath::new("spec").child("ipFamilyPolicy");
    let mut errors = FieldErrors::new();
    for (many, what) in
        [(spec.cluster_ips.len() == 2, "cluster IPs"), (spec.families.len() == 2, "IP families")]
    {
        if policy == SINGLE && many {
            let why =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.push(FieldError::invalid(&field, policy, why));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Families that follow from addresses.
fn infer(spec: &mut Spec, configured: &[&str]) -> Result<(), FieldErrors> {
    let field = FieldPath::new("spec").child("clusterIPs");
    let mut errors = FieldErrors::new();
    for (at, ip) in spec.cluster_ips.iter().enumerate().take_while(|(_, ip)| *ip != "None") {
        let family = if ip.contains(':') { "IPv6" } else { "IPv4" };
        if ip.is_empty() || at < spec.families.len() {
            continue;
        }
        if configured.contains(&family) {
            spec.families.push(family.to_owned());
        } else {
            let why = format!("{family} is not configured on this cluster");
            errors.push(FieldError::invalid(&field.index(at), json!(spec.cluster_ips), why));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn check_configured(spec: &Spec, policy: &str, configured: &[&str]) -> Result<(), FieldErrors> {
    let path = FieldPath::new("spec");
    let mut errors = FieldErrors::new();
    if policy == REQUIRE && configured.len() < 2 {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(&path.child("ipFamilyPolicy"), policy, why));
    }
    for (at, family) in spec.families.iter().enumerate() {
        if !configured.contains(&family.as_str()) {
            let field = path.child("ipFamilies").index(at);
            errors.push(FieldError::invalid(&field, family.as_str(), "not configured on this cluster"));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The positions that need an address, with the one that is asked for.
pub(super) fn wanted(spec: &Spec, old: Option<&Spec>) -> Vec<(usize, Option<String>)> {
    if spec.external_name() || spec.headless() {
        return Vec::new();
    }
    let ask = |at: usize| (at, spec.cluster_ips.get(at).filter(|ip| !ip.is_empty()).cloned());
    match old {
        Some(old) if settled(spec, old) => Vec::new(),
        // Had none before.
        None => (0..spec.families.len()).map(ask).collect(),
        Some(old) if old.external_name() => (0..spec.families.len()).map(ask).collect(),
        Some(old) if old.headless() => Vec::new(),
        Some(old) if old.families.len() == 1 && spec.families.len() == 2 => vec![ask(1)],
        Some(_) => Vec::new(),
    }
}

/// Addresses that the change no longer needs.
pub(super) fn released(spec: &Spec, old: Option<&Spec>) -> Vec<String> {
    let Some(old) = old.filter(|old| !old.external_name() && !old.headless()) else { return Vec::new() };
    if spec.external_name() {
        return old.cluster_ips.clone();
    }
    if old.families.len() == 2 && spec.families.len() == 1 {
        return old.cluster_ips.get(1).cloned().into_iter().collect();
    }
    Vec::new()
}
