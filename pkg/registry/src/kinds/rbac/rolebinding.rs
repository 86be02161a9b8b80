//! Role bindings and cluster role bindings.

use copepod_api::names;

use crate::kinds::at::At;
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
    name: names::path_segment,
    ..Kind::PLAIN
};

/// Role bindings.
pub(crate) static ROLE_BINDING: Kind = Kind {
    validate: |binding| validate(binding, true),
    validate_update: Some(|new, old| {
        validate(new, true);
        new.get("roleRef").immutable(&old.get("roleRef"));
    }),
    ..BINDING
};

/// Cluster role bindings.
pub(crate) static CLUSTER_ROLE_BINDING: Kind = Kind {
    validate: |binding| validate(binding, false),
    validate_update: Some(|new, old| {
        validate(new, false);
        new.get("roleRef").immutable(&old.get("roleRef"));
    }),
    ..BINDING
};

fn subject(subject: &mut Object) {
    if text(subject, "apiGroup").is_empty() && matches!(text(subject, "kind"), "User" | "Group") {
        subject.insert("apiGroup".to_owned(), GROUP.into());
    }
}

fn validate(binding: &At<'_>, namespaced: bool) {
    let role = binding.get("roleRef");
    if !role.is("apiGroup", GROUP) {
        role.get("apiGroup").not_supported(&[GROUP]);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&role.get("kind").str()) {
        role.get("kind").not_supported(kinds);
    }
    if role.get("name").need() {
        role.get("name").text(names::path_segment);
    }
    binding.get("subjects").items().for_each(|at| check_subject(&at, namespaced));
}

fn check_subject(at: &At<'_>, namespaced: bool) {
    let (name, group) = (at.get("name"), at.get("apiGroup"));
    name.need();
    match at.get("kind").str() {
        "ServiceAccount" => {
            if !name.is_empty() {
                name.text(names::dns1123_subdomain);
            }
            if !group.is_empty() {
                group.not_supported(&[""]);
            }
            if !namespaced {
                at.get("namespace").need();
            }
        }
        "User" | "Group" => {
            if group.str() != GROUP {
                group.not_supported(&[GROUP]);
            }
        }
        _ => at.get("kind").not_supported(&["ServiceAccount", "User", "Group"]),
    }
}
