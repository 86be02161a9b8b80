//! Network policies.

use serde_json::{Value, json};

use crate::kinds::defaults::{
    Lit::S,
    Object,
    Rule::{Each, In, Nil, Run},
    is_zero,
};
use crate::kinds::kind::Kind;

/// Network policies.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(
        &["spec"],
        &[
            Run(policy_types),
            Each(&["ingress", "egress"], &[Each(&["ports"], &[Nil("protocol", S("TCP"))])]),
        ],
    )],
    generation: true,
    ..Kind::PLAIN
};

fn policy_types(spec: &mut Object) {
    if !spec.get("policyTypes").is_none_or(is_zero) {
        return;
    }
    let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    spec.insert("policyTypes".to_owned(), types);
}
