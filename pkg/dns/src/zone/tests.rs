use super::*;
use crate::catalog::memory::catalog;

fn ask(name: &str, kind: RecordType) -> Vec<String> {
    let zone = Zone::new("cluster.local", 30).unwrap();
    match zone.find(&catalog(), &Name::from_ascii(name).unwrap(), kind) {
        Found::Records { answers, additionals } => {
            let mut lines: Vec<String> =
                answers.iter().map(|r| format!("{} {}", r.record_type(), r.data)).collect();
            lines.sort();
            lines.extend(additionals.iter().map(|r| format!("+{} {}", r.name, r.data)));
            lines
        }
        Found::Alias { target, .. } => vec![format!("CNAME {target}")],
        other => vec![format!("{other:?}")],
    }
}

#[test]
fn the_specification_s_table() {
    use RecordType::{A, AAAA, PTR, SRV, TXT};
    let cases: &[(&str, RecordType, &[&str])] = &[
        ("web.default.svc.cluster.local.", A, &["A 10.96.0.5"]),
        ("WEB.Default.svc.cluster.LOCAL.", A, &["A 10.96.0.5"]),
        ("web.default.svc.cluster.local.", AAAA, &["NoData"]),
        ("nope.default.svc.cluster.local.", A, &["NoName"]),
        ("web.default.svc.cluster.local.default.svc.cluster.local.", A, &["NoName"]),
        ("db.default.svc.cluster.local.", A, &["A 10.244.0.7", "A 10.244.0.8"]),
        ("empty.default.svc.cluster.local.", A, &["NoName"]),
        ("db-0.db.default.svc.cluster.local.", A, &["A 10.244.0.7"]),
        ("10-244-0-8.db.default.svc.cluster.local.", A, &["A 10.244.0.8"]),
        ("db-2.db.default.svc.cluster.local.", A, &["NoName"]),
        ("out.default.svc.cluster.local.", A, &["CNAME example.org."]),
        (
            "_http._tcp.web.default.svc.cluster.local.",
            SRV,
            &["SRV 0 100 80 web.default.svc.cluster.local.", "+web.default.svc.cluster.local. 10.96.0.5"],
        ),
        ("_http._udp.web.default.svc.cluster.local.", SRV, &["NoName"]),
        ("_http._tcp.web.default.svc.cluster.local.", A, &["NoData"]),
        (
            "_sql._tcp.db.default.svc.cluster.local.",
            SRV,
            &[
                "SRV 0 50 5432 10-244-0-8.db.default.svc.cluster.local.",
                "SRV 0 50 5432 db-0.db.default.svc.cluster.local.",
                "+db-0.db.default.svc.cluster.local. 10.244.0.7",
                "+10-244-0-8.db.default.svc.cluster.local. 10.244.0.8",
            ],
        ),
        ("5.0.96.10.in-addr.arpa.", PTR, &["PTR web.default.svc.cluster.local."]),
        ("7.0.244.10.in-addr.arpa.", PTR, &["PTR db-0.db.default.svc.cluster.local."]),
        ("9.9.9.9.in-addr.arpa.", PTR, &["Elsewhere"]),
        ("10-244-0-1.default.pod.cluster.local.", A, &["A 10.244.0.1"]),
        ("10-244-0.default.pod.cluster.local.", A, &["NoName"]),
        ("dns-version.cluster.local.", TXT, &["TXT 1.1.0"]),
        ("default.svc.cluster.local.", A, &["NoData"]),
        ("nowhere.svc.cluster.local.", A, &["NoName"]),
        (
            "cluster.local.",
            RecordType::NS,
            &["NS ns.dns.cluster.local.", "+ns.dns.cluster.local. 10.96.0.10"],
        ),
        ("example.com.", A, &["Elsewhere"]),
        ("mycluster.local.", A, &["Elsewhere"]),
    ];
    for (name, kind, expected) in cases {
        assert_eq!(ask(name, *kind), *expected, "{name} {kind}");
    }
}
