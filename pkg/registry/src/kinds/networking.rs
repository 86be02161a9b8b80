//! The `networking.k8s.io` group.

pub(crate) mod ingress;
pub(crate) mod ingressclass;
pub(crate) mod ipaddress;
pub(crate) mod networkpolicy;
pub(crate) mod servicecidr;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "ingressclasses" => &ingressclass::KIND,
        "ingresses" => &ingress::KIND,
        "ipaddresses" => &ipaddress::KIND,
        "networkpolicies" => &networkpolicy::KIND,
        "servicecidrs" => &servicecidr::KIND,
        _ => return None,
    })
}
