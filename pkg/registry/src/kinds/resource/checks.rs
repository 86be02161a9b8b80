//! What requests for devices and pools of devices must look like.

use std::collections::HashSet;

use copepod_api::{FieldError, names};

use crate::kinds::at::At;

/// `spec` of a claim.
pub(super) fn claim(spec: &At<'_>) {
    let devices = spec.get("devices");
    let requests = devices.get("requests");
    let mut known: HashSet<String> = HashSet::new();
    let mut seen = HashSet::new();
    for at in requests.items() {
        let name = at.get("name");
        name.invalid_all(names::dns1123_label(name.str()));
        if !seen.insert(name.str()) {
            at.duplicate();
        }
        known.insert(name.str().to_owned());
        let (exactly, first) = (at.get("exactly"), at.get("firstAvailable"));
        match (exactly.present(), !first.is_empty()) {
            (false, false) => at.required("exactly one of `exactly` or `firstAvailable` is required"),
            (true, true) => at.invalid_hidden(
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
            ),
            (true, false) => request(&exactly),
            (false, true) => {
                for sub in first.items() {
                    let own = sub.get("name");
                    own.invalid_all(names::dns1123_label(own.str()));
                    known.insert(format!("{}/{}", name.str(), own.str()));
                    request(&sub);
                }
            }
        }
    }
    for constraint in devices.get("constraints").items() {
        refer(&constraint.get("requests"), &known);
        attribute(&constraint.get("matchAttribute"));
    }
    for config in devices.get("config").items() {
        refer(&config.get("requests"), &known);
    }
}

fn refer(list: &At<'_>, known: &HashSet<String>) {
    for name in list.items().filter(|name| !known.contains(name.str())) {
        name.invalid("must be the name of a request in the claim or the name of a request and a subrequest separated by '/'");
    }
}

fn attribute(at: &At<'_>) {
    if at.present() && !at.str().contains('/') {
        at.invalid("a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn request(at: &At<'_>) {
    let class = at.get("deviceClassName");
    if class.need() {
        class.text(names::dns1123_subdomain);
    }
    selectors(&at.get("selectors"));
    let (mode, count) = (at.get("allocationMode"), at.get("count"));
    match mode.str() {
        "All" => {
            if count.int().unwrap_or(0) != 0 {
                count.invalid("must not be specified when allocationMode is 'All'");
            }
        }
        "ExactCount" => {
            if count.int().unwrap_or(0) <= 0 {
                count.invalid_as(count.int().unwrap_or(0), "must be greater than zero");
            }
        }
        _ => mode.not_supported(&["All", "ExactCount"]),
    }
}

/// The longest expression of a selector.
const LONGEST: usize = 10 * 1024;

/// `selectors` of a request or class.
pub(super) fn selectors(list: &At<'_>) {
    for selector in list.items() {
        let cel = selector.get("cel");
        if !cel.present() {
            cel.required("");
            continue;
        }
        let expression = cel.get("expression");
        if expression.str().len() > LONGEST {
            expression.push(FieldError::too_long(expression.path(), LONGEST));
        } else if let Some(why) = copepod_cel::device::selector_error(expression.str()) {
            expression.invalid(why);
        }
    }
}

/// `spec` of a slice.
pub(super) fn slice(spec: &At<'_>) {
    let driver = spec.get("driver");
    if driver.need() {
        driver.text(names::dns1123_subdomain);
    }
    let pool = spec.get("pool");
    if pool.get("name").need() {
        for part in pool.get("name").str().split('/') {
            pool.get("name").invalid_all(names::dns1123_subdomain(part));
        }
    }
    spec.get("nodeName").text(names::dns1123_subdomain);
    let (generation, count) = (pool.get("generation"), pool.get("resourceSliceCount"));
    if generation.int().is_some_and(|n| n < 0) {
        generation.invalid("must be greater than or equal to zero");
    }
    if count.int().unwrap_or(0) <= 0 {
        count.invalid_as(count.int().unwrap_or(0), "must be greater than zero");
    }
    let places = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
    match places.iter().filter(|field| spec.get(field).present()).count() {
        0 => spec.required("exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"),
        1 => {}
        _ => spec.invalid_hidden("exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set"),
    }
    let mut seen = HashSet::new();
    for at in spec.get("devices").items() {
        let name = at.get("name");
        name.invalid_all(names::dns1123_label(name.str()));
        if !seen.insert(name.str()) {
            at.push(FieldError::duplicate(at.path(), name.str()));
        }
    }
}
