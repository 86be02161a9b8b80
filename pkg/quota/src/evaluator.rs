//! Which resource is counted how.

use copepod_api::Quantity;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Amounts, Term, claims, pods, services};

/// How the objects of one resource are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evaluator {
    /// Pods.
    Pods,
    /// Services.
    Services,
    /// PersistentVolumeClaims.
    Storage,
    /// ResourceClaims.
    Devices,
    /// Anything else counts by number, under `count/<resource>.<group>` and perhaps an old short name.
    Number {
        /// The full name.
        name: String,
        /// The short one.
        alias: Option<&'static str>,
    },
}

/// Group and resource of what no quota counts: nothing of these is stored, or they are events.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// Resources of the core group that had a name of their own before `count/` came.
pub(crate) const ALIASES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

/// `count/<resource>.<group>`.
#[must_use]
pub fn count_name(group: &str, resource: &str) -> String {
    if group.is_empty() { format!("count/{resource}") } else { format!("count/{resource}.{group}") }
}

impl Evaluator {
    /// How a resource is counted; `None` when it never is.
    #[must_use]
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        if IGNORED.contains(&(group, resource)) {
            return None;
        }
        Some(match (group, resource) {
            ("", "pods") => Self::Pods,
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::Storage,
            ("resource.k8s.io", "resourceclaims") => Self::Devices,
            _ => {
                let alias = ALIASES.into_iter().find(|alias| group.is_empty() && *alias == resource);
                Self::Number { name: count_name(group, resource), alias }
            }
        })
    }

    /// Whether it counts under `name`.
    #[must_use]
    pub fn counts(&self, name: &str) -> bool {
        match self {
            Self::Pods => pods::counts(name),
            Self::Services => name == "count/services" || services::NAMES.contains(&name),
            Self::Storage => claims::counts_storage(name),
            Self::Devices => claims::counts_devices(name),
            Self::Number { name: full, alias } => name == full || Some(name) == *alias,
        }
    }

    /// Whether a number of objects is all it needs to know.
    #[must_use]
    pub fn only_counts(&self) -> bool {
        matches!(self, Self::Number { .. })
    }

    /// What an object uses.
    #[must_use]
    pub fn usage(&self, object: &Value, now: Timestamp) -> Amounts {
        match self {
            Self::Pods => pods::usage(object, now),
            Self::Services => services::usage(object),
            Self::Storage => claims::storage(object),
            Self::Devices => claims::devices(object),
            Self::Number { name, alias } => {
                let mut used = Amounts::default();
                for name in [Some(name.as_str()), *alias].into_iter().flatten() {
                    used.set(name, Quantity::from_units(1));
                }
                used
            }
        }
    }

    /// Whether an object is in a scope.
    #[must_use]
    pub fn in_scope(&self, term: &Term, object: &Value) -> bool {
        match self {
            Self::Pods => pods::in_scope(term, object),
            Self::Storage => claims::in_scope(term, object),
            _ => false,
        }
    }

    /// Refuses an object that leaves out what quotas on `required` oblige it to say.
    pub(crate) fn constraints(&self, required: &[&str], object: &Value) -> Result<(), String> {
        if *self == Self::Pods { pods::constraints(required, object) } else { Ok(()) }
    }

    /// Whether a write may change what is used. `old` is the object before an update.
    #[must_use]
    pub fn concerns(&self, subresource: &str, object: &Value, old: Option<&Value>) -> bool {
        match (self, subresource, old) {
            (_, "", None) | (Self::Pods, "resize", Some(_)) => true,
            (Self::Pods, "", Some(old)) => pods::is_terminating(old) != pods::is_terminating(object),
            (Self::Services | Self::Storage | Self::Devices, "", Some(_))
            | (Self::Storage, "status", Some(_)) => true,
            _ => false,
        }
    }

    /// What of an object decides over its usage although nobody charges a change of it: when this changes, the
    /// controller counts anew. `null` for resources that only count by number.
    #[must_use]
    pub fn facts(&self, object: &Value) -> Value {
        match self {
            Self::Pods => {
                let statuses = ["containerStatuses", "initContainerStatuses"];
                let statuses =
                    statuses.iter().filter_map(|list| object["status"][*list].as_array()).flatten();
                let resources: Vec<_> =
                    statuses.map(|status| json!([status["name"], status["resources"]])).collect();
                json!([pods::is_terminating(object), pods::has_ended(object), resources])
            }
            Self::Services => match object["spec"]["type"].as_str() {
                Some(kind @ ("NodePort" | "LoadBalancer")) => Value::from(kind),
                _ => Value::Null,
            },
            Self::Storage => object["status"].clone(),
            Self::Devices | Self::Number { .. } => Value::Null,
        }
    }
}
