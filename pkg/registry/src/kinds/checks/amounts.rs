//! Names and amounts of resources.

use copepod_api::{Quantity, names};
use serde_json::Value;

use crate::kinds::at::At;
use crate::kinds::pod::resources::quantity;

/// Resources that quotas count besides cpu, memory and storage.
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const COMPUTE: &[&str] = &["cpu", "memory", "ephemeral-storage"];
const QUALIFIED: &[&str] = &[
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// Whether a resource is huge pages.
pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_quota_huge_pages(name: &str) -> bool {
    is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

/// Whether a resource lies in the `kubernetes.io` namespace; names without prefix do.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource is some device's.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether more may be limited than requested.
pub(crate) fn overcommits(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

fn is_standard(name: &str) -> bool {
    COMPUTE.contains(&name)
        || QUALIFIED.contains(&name)
        || COUNTED.contains(&name)
        || matches!(name, "requests.storage" | "storage")
        || is_quota_huge_pages(name)
}

/// Any resource's name.
pub(crate) fn name(at: &At<'_>, name: &str) -> bool {
    let texts = names::qualified_name(name);
    if !texts.is_empty() {
        texts.into_iter().for_each(|text| at.invalid_as(name, text));
        return false;
    }
    if !name.contains('/') && !is_standard(name) {
        at.invalid_as(name, "must be a standard resource type or fully qualified");
        return false;
    }
    true
}

/// The name of a resource that containers may ask for.
pub(crate) fn container_name(at: &At<'_>, resource: &str) {
    name(at, resource);
    if !resource.contains('/') {
        if !COMPUTE.contains(&resource) && !is_huge_pages(resource) {
            at.invalid_as(resource, "must be a standard resource for containers");
        }
    } else if !is_native(resource) && !is_extended(resource) {
        at.invalid_as(resource, "doesn't follow extended resource name standard");
    }
}

/// The name of a resource that quotas may count.
pub(crate) fn quota_name(at: &At<'_>, resource: &str) {
    name(at, resource);
    let counted = resource == "count" || resource.starts_with("count/");
    let standard =
        (COMPUTE.contains(&resource) || QUALIFIED.contains(&resource) || COUNTED.contains(&resource))
            || resource == "requests.storage"
            || is_quota_huge_pages(resource);
    if !resource.contains('/') && !counted && !standard {
        at.invalid_as(resource, "must be a standard resource for quota");
    }
}

/// The amount, when it parses.
pub(crate) fn amount(at: &At<'_>) -> Option<Quantity> {
    at.value().and_then(quantity)
}

/// An amount as errors show it.
pub(crate) fn shown(amount: Quantity) -> Value {
    amount.to_string().into()
}

/// Wants an amount that is not negative.
pub(crate) fn not_negative(at: &At<'_>) {
    if let Some(amount) = amount(at).filter(|a| *a < Quantity::ZERO) {
        at.invalid_as(shown(amount), "must be greater than or equal to 0");
    }
}

/// Wants an amount above zero.
pub(crate) fn positive(at: &At<'_>) {
    if let Some(amount) = amount(at).filter(|a| *a <= Quantity::ZERO) {
        at.invalid_as(shown(amount), "must be greater than zero");
    }
}

/// An amount of a resource: not negative, and whole where the resource is counted.
pub(crate) fn value(at: &At<'_>, resource: &str) {
    not_negative(at);
    let whole = COUNTED.contains(&resource) || is_extended(resource);
    if whole && let Some(amount) = amount(at).filter(|a| a.millis() % 1000 != 0) {
        at.invalid_as(shown(amount), "must be an integer");
    }
}

fn huge_pages_divide(resource: &str, amount: Quantity) -> bool {
    let size = resource.strip_prefix("hugepages-").and_then(|size| size.parse::<Quantity>().ok());
    size.is_none_or(|size| size.nanos() > 0 && amount.nanos() % size.nanos() == 0)
}

/// Requests and limits of a container, a pod or a claim; `check_name` says what may be asked for.
pub(crate) fn requirements(at: &At<'_>, check_name: fn(&At<'_>, &str)) {
    let (limits, requests) = (at.get("limits"), at.get("requests"));
    let (mut compute, mut huge) = (false, false);
    for (list, is_request) in [(&limits, false), (&requests, true)] {
        for (resource, place) in list.entries() {
            check_name(&place, resource);
            value(&place, resource);
            if is_request {
                against_limit(&place, resource, &requests, &limits);
            }
            if is_huge_pages(resource) {
                huge = true;
                if let Some(amount) = amount(&place).filter(|a| !huge_pages_divide(resource, *a)) {
                    place.invalid_as(
                        shown(amount),
                        format!("{amount} is not positive integer multiple of {resource}"),
                    );
                }
            }
            compute |= matches!(resource, "cpu" | "memory");
        }
    }
    if huge && !compute {
        at.forbidden("HugePages require cpu or memory");
    }
}

fn against_limit(place: &At<'_>, resource: &str, requests: &At<'_>, limits: &At<'_>) {
    let (asked, limit) = (amount(place), amount(&limits.key(resource)));
    match (asked, limit) {
        (Some(asked), Some(limit)) if asked != limit && !overcommits(resource) => {
            requests.invalid_as(shown(asked), format!("must be equal to {resource} limit of {limit}"));
        }
        (Some(asked), Some(limit)) if asked > limit => {
            requests.invalid_as(
                shown(asked),
                format!("must be less than or equal to {resource} limit of {limit}"),
            );
        }
        (_, None) if !overcommits(resource) => {
            limits.required("Limit must be set for non overcommitable resources");
        }
        _ => {}
    }
}
