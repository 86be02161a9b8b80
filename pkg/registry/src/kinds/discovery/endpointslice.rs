//! Endpoint slices.

use std::collections::HashSet;

use copepod_api::{FieldError, names};

use crate::kinds::at::{At, same};
use crate::kinds::checks::warn;
use crate::kinds::checks::{ip, labels};
use crate::kinds::defaults::{
    Lit::S,
    Rule::{Each, Nil},
};
use crate::kinds::kind::{Kind, body_differs};

/// Endpoint slices.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Each(&["ports"], &[Nil("name", S("")), Nil("protocol", S("TCP"))])],
    generation: true,
    validate,
    validate_update: Some(|new, old| {
        validate(new);
        new.get("addressType").fixed(&old.get("addressType"));
    }),
    counts: |new, old| {
        body_differs(new, old) || !same(new.pointer("/metadata/labels"), old.pointer("/metadata/labels"))
    },
    warnings: |new, _| {
        warn::about(new, copepod_api::FieldPath::root(), |slice, warnings| {
            if slice.is("addressType", "FQDN") {
                warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
            }
            let manager = slice.at("metadata.labels").key("endpointslice.kubernetes.io/managed-by");
            if !manager.str().ends_with("-controller.k8s.io") {
                let addresses = slice.get("endpoints").items().flat_map(|e| e.get("addresses").items());
                addresses.for_each(|at| warn::address(&at, warnings));
            }
        })
    },
    ..Kind::PLAIN
};

fn validate(slice: &At<'_>) {
    let kind = slice.get("addressType");
    kind.need_one_of(&["FQDN", "IPv4", "IPv6"]);
    ports(&slice.get("ports"));
    let endpoints = slice.get("endpoints");
    at_most(&endpoints, 1000);
    endpoints.items().for_each(|at| endpoint(&at, kind.str()));
}

fn at_most(list: &At<'_>, max: usize) {
    if list.array().len() > max {
        list.push(FieldError::too_many(list.path(), list.array().len(), max));
    }
}

fn ports(list: &At<'_>) {
    at_most(list, 20_000);
    let mut seen = HashSet::new();
    for at in list.items() {
        let name = at.get("name");
        if !name.is_empty() {
            name.text(names::dns1123_label);
        }
        if !seen.insert(name.str()) {
            name.push(FieldError::duplicate(name.path(), name.str()));
        }
        at.get("protocol").need_one_of(&["SCTP", "TCP", "UDP"]);
        if at.get("appProtocol").present() {
            labels::key(&at.get("appProtocol"));
        }
    }
}

fn endpoint(at: &At<'_>, kind: &str) {
    let addresses = at.get("addresses");
    addresses.need();
    at_most(&addresses, 100);
    addresses.items().for_each(|address| check_address(&address, &addresses, kind));
    at.get("nodeName").text(names::dns1123_subdomain);
    labels::labels(&at.get("deprecatedTopology"));
    at.get("hostname").text(names::dns1123_label);
    for (field, check) in
        [("forZones", names::label_value as fn(&str) -> Vec<String>), ("forNodes", names::dns1123_subdomain)]
    {
        let hints = at.get("hints").get(field);
        at_most(&hints, 8);
        let mut seen = HashSet::new();
        for name in hints.items().map(|hint| hint.get("name")) {
            if !seen.insert(name.str()) {
                name.duplicate();
            }
            name.text(check);
        }
    }
}

fn check_address(at: &At<'_>, list: &At<'_>, kind: &str) {
    let before = at.errors();
    match kind {
        "IPv4" => ip::address(at, &[]),
        "IPv6" => ip::canonical_address(at),
        "FQDN" => return crate::kinds::checks::text::qualified_domain(at, 2),
        _ => return,
    }
    if at.errors() > before {
        return;
    }
    if (kind == "IPv6") != at.str().contains(':') {
        list.invalid_as(at.str(), format!("must be an {kind} address"));
    }
    ip::endpoint(at);
}
