//! Role bindings and cluster role bindings.

use crate::kinds::defaults::{
    Lit::S,
    Object,
    Rule::{Each, In, Run, Zero},
    text,
};
use crate::kinds::kind::Kind;

const GROUP: &str = "rbac.authorization.k8s.io";

const BINDING: Kind = Kind {
    defaults: &[In(&["roleRef"], &[Zero("apiGroup", S(GROUP))]), Each(&["subjects"], &[Run(subject)])],
    create_on_update: true,
    name: copepod_api::names::path_segment,
    ..Kind::PLAIN
};

/// Role bindings.
pub(crate) static ROLE_BINDING: Kind = Kind { ..BINDING };

/// Cluster role bindings.
pub(crate) static CLUSTER_ROLE_BINDING: Kind = Kind { ..BINDING };

fn subject(subject: &mut Object) {
    if text(subject, "apiGroup").is_empty() && matches!(text(subject, "kind"), "User" | "Group") {
        subject.insert("apiGroup".to_owned(), GROUP.into());
    }
}
