//! Every kind, by its row.

use super::*;
use serde_json::json;

#[test]
fn defaulting_is_idempotent() {
    let hooks = hooks_for("apps", "deployments");
    let mut once = json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [
        {"name": "a", "image": "b", "ports": [{"containerPort": 1}]}]}}}});
    hooks.default(&mut once);
    let mut twice = once.clone();
    hooks.default(&mut twice);
    assert_eq!(once, twice);
    assert_eq!(once["spec"]["template"]["spec"]["containers"][0]["ports"][0]["protocol"], "TCP");
}

#[test]
fn unknown_kinds_are_plain() {
    assert!(hooks_for("example.com", "things").validate_name("x.y").is_empty());
}
