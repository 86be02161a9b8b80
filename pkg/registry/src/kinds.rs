//! The strategies of the built-in kinds, one file per kind below its group's folder.
//!
//! A kind is a [`kind::Kind`] row: defaults as [`defaults::Rule`] data, checks over [`at::At`], flags. Facts are
//! upstream's, v1.37: `pkg/apis/*/v*/defaults.go`, `pkg/apis/*/validation`, `pkg/registry/*/*/strategy.go`.

mod at;
mod checks;
mod defaults;
mod kind;

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod events;
mod fields;
mod flowcontrol;
mod networking;
mod node;
mod pod;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod storage;
mod storagemigration;

pub(crate) use core::service::asked as services_asked;
pub use fields::{SelectableField, selectable_fields};

use crate::hooks::{Hooks, Plain};
use kind::Kind;

/// The strategy of a built-in kind.
#[must_use]
pub fn hooks_for(group: &str, resource: &str) -> Box<dyn Hooks> {
    let found: Option<&'static Kind> = match group {
        "" => core::kind(resource),
        "admissionregistration.k8s.io" => admissionregistration::kind(resource),
        "apiextensions.k8s.io" => apiextensions::kind(resource),
        "apiregistration.k8s.io" => apiregistration::kind(resource),
        "apps" => apps::kind(resource),
        "authentication.k8s.io" => authentication::kind(resource),
        "authorization.k8s.io" => authorization::kind(resource),
        "autoscaling" => autoscaling::kind(resource),
        "batch" => batch::kind(resource),
        "certificates.k8s.io" => certificates::kind(resource),
        "coordination.k8s.io" => coordination::kind(resource),
        "discovery.k8s.io" => discovery::kind(resource),
        "events.k8s.io" => events::kind(resource),
        "flowcontrol.apiserver.k8s.io" => flowcontrol::kind(resource),
        "networking.k8s.io" => networking::kind(resource),
        "node.k8s.io" => node::kind(resource),
        "policy" => policy::kind(resource),
        "rbac.authorization.k8s.io" => rbac::kind(resource),
        "resource.k8s.io" => resource::kind(resource),
        "scheduling.k8s.io" => scheduling::kind(resource),
        "storage.k8s.io" => storage::kind(resource),
        "storagemigration.k8s.io" => storagemigration::kind(resource),
        _ => None,
    };
    match found {
        Some(kind) => Box::new(kind),
        None => Box::new(Plain),
    }
}

/// A user for tests.
#[cfg(test)]
fn anyone() -> &'static crate::request::UserInfo {
    static ANYONE: std::sync::OnceLock<crate::request::UserInfo> = std::sync::OnceLock::new();
    ANYONE.get_or_init(|| crate::request::UserInfo { name: "someone".to_owned(), ..Default::default() })
}

#[cfg(test)]
mod tests;
