//! Endpoints, the older form of EndpointSlices.

use copepod_api::names;

use crate::kinds::at::At;
use crate::kinds::checks::warn;
use crate::kinds::checks::{ip, labels, text};
use crate::kinds::defaults::{
    Lit::S,
    Rule::{Each, Zero},
};
use crate::kinds::kind::Kind;

/// Endpoints.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Each(&["subsets"], &[Each(&["ports"], &[Zero("protocol", S("TCP"))])])],
    create_on_update: true,
    validate,
    warnings: |new, _| {
        warn::about(new, copepod_api::FieldPath::root(), |endpoints, warnings| {
            let manager = endpoints.at("metadata.labels").key("endpoints.kubernetes.io/managed-by");
            if manager.str() == "endpoint-controller" {
                return;
            }
            for subset in endpoints.get("subsets").items() {
                for list in ["addresses", "notReadyAddresses"] {
                    subset.get(list).items().for_each(|at| warn::address(&at.get("ip"), warnings));
                }
            }
        })
    },
    ..Kind::PLAIN
};

fn validate(endpoints: &At<'_>) {
    for subset in endpoints.get("subsets").items() {
        if subset.get("addresses").is_empty() && subset.get("notReadyAddresses").is_empty() {
            subset.required("must specify `addresses` or `notReadyAddresses`");
        }
        for list in ["addresses", "notReadyAddresses"] {
            subset.get(list).items().for_each(|address| check_address(&address));
        }
        let several = subset.get("ports").array().len() > 1;
        subset.get("ports").items().for_each(|port| check_port(&port, several));
    }
}

fn check_address(at: &At<'_>) {
    ip::address(&at.get("ip"), &[]);
    if !at.get("hostname").is_empty() {
        at.get("hostname").text(names::dns1123_label);
    }
    at.get("nodeName").text(names::dns1123_subdomain);
    ip::endpoint(&at.get("ip"));
}

fn check_port(at: &At<'_>, named: bool) {
    let name = at.get("name");
    if name.is_empty() {
        if named {
            name.required("");
        }
    } else {
        name.text(names::dns1123_label);
    }
    text::port(&at.get("port"));
    at.get("protocol").need_one_of(&["SCTP", "TCP", "UDP"]);
    if at.get("appProtocol").present() {
        labels::key(&at.get("appProtocol"));
    }
}
