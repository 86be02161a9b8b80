//! The core group.

pub(crate) mod configmap;
pub(crate) mod endpoints;
pub(crate) mod event;
pub(crate) mod limitrange;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod persistentvolume;
pub(crate) mod persistentvolumeclaim;
pub(crate) mod podtemplate;
pub(crate) mod replicationcontroller;
pub(crate) mod resourcequota;
pub(crate) mod secret;
pub(crate) mod service;
pub(crate) mod serviceaccount;

use super::kind::Kind;

/// The strategy of a resource of this group.
pub(crate) fn kind(resource: &str) -> Option<&'static Kind> {
    Some(match resource {
        "bindings" => &super::pod::BINDING,
        "configmaps" => &configmap::KIND,
        "endpoints" => &endpoints::KIND,
        "events" => &event::KIND,
        "limitranges" => &limitrange::KIND,
        "namespaces" => &namespace::KIND,
        "nodes" => &node::KIND,
        "persistentvolumeclaims" => &persistentvolumeclaim::KIND,
        "persistentvolumes" => &persistentvolume::KIND,
        "pods" => &super::pod::KIND,
        "podtemplates" => &podtemplate::KIND,
        "replicationcontrollers" => &replicationcontroller::KIND,
        "resourcequotas" => &resourcequota::KIND,
        "secrets" => &secret::KIND,
        "serviceaccounts" => &serviceaccount::KIND,
        "services" => &service::KIND,
        _ => return None,
    })
}
