use super::{addresses::Range, families, spec::Spec};
use serde_json::json;

fn spec(value: serde_json::Value) -> Spec {
    Spec::read(&json!({"spec": value}))
}

#[test]
fn ranges_keep_their_lower_part_for_requests() {
    let range = |net: &str| {
        let r = Range::of(&net.parse().unwrap());
        (r.last - r.first + 1, r.offset)
    };
    assert_eq!(range("10.96.0.0/12"), ((1 << 20) - 2, 256));
    assert_eq!(range("10.96.0.0/24"), (254, 16));
    assert_eq!(range("10.96.0.0/28"), (14, 0));
    assert_eq!(range("fd00::/112"), (65535, 256));
}

#[test]
fn families_of_new_services() {
    let settle = |value, configured: &[&str]| {
        let mut s = spec(value);
        s.normalize_addresses(None);
        families::settle(&mut s, None, configured)
            .map(|()| (s.policy.clone().unwrap_or_default(), s.families.join(",")))
    };
    let ok = |policy: &str, families: &str| Ok((policy.to_owned(), families.to_owned()));
    assert_eq!(settle(json!({"selector": {"a": "b"}}), &["IPv4"]), ok("SingleStack", "IPv4"));
    assert_eq!(settle(json!({"clusterIP": "None"}), &["IPv4"]), ok("RequireDualStack", "IPv4,IPv6"));
    assert_eq!(
        settle(json!({"clusterIP": "None", "selector": {"a": "b"}}), &["IPv4"]),
        ok("SingleStack", "IPv4")
    );
    assert_eq!(
        settle(json!({"ipFamilyPolicy": "PreferDualStack"}), &["IPv6", "IPv4"]),
        ok("PreferDualStack", "IPv6,IPv4")
    );
    assert_eq!(
        settle(json!({"ipFamilyPolicy": "PreferDualStack"}), &["IPv4"]),
        ok("PreferDualStack", "IPv4")
    );
    let text = |result: Result<_, copepod_api::FieldErrors>| result.unwrap_err()[0].to_string();
    assert_eq!(
        text(settle(json!({"ipFamilyPolicy": "RequireDualStack"}), &["IPv4"])),
        "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
    );
    assert_eq!(
        text(settle(json!({"ipFamilies": ["IPv6"]}), &["IPv4"])),
        "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"
    );
    assert_eq!(
        text(settle(json!({"clusterIP": "fd00::1"}), &["IPv4"])),
        "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster"
    );
}

#[test]
fn changes_keep_what_the_client_left_out() {
    let old = spec(json!({
        "type": "NodePort", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"],
        "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}],
    }));
    let mut new = spec(json!({"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}, {"port": 81}]}));
    new.keep_allocated(&old);
    assert_eq!(new.cluster_ips, ["10.96.0.9"]);
    assert_eq!(new.node_ports(), [30080]);
    let external = spec(json!({"type": "ExternalName"}));
    assert_eq!(families::released(&external, Some(&old)), ["10.96.0.9"]);
    assert_eq!(families::wanted(&old, Some(&external)), [(0, Some("10.96.0.9".to_owned()))]);
    assert!(families::wanted(&new, Some(&old)).is_empty());
}
