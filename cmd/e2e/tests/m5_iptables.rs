//! M5 in iptables mode: the chains that the seeds show.

use std::process::ExitCode;

use copepod_e2e::{Check, ensure, node};
use copepod_testkit::{Cluster, Side};

fn main() -> ExitCode {
    copepod_e2e::main(
        "m5-iptables",
        &["--proxy-mode=iptables"],
        &[
            ("a_web_service_runs", copepod_e2e::web),
            ("a_cluster_ip_answers", cluster_ip),
            ("the_chains_are_the_seeds", chains),
            ("the_cascade_gives_each_endpoint_its_share", cascade),
            ("a_node_port_answers_a_neighbour", copepod_e2e::node_port),
        ],
    )
}

fn cluster_ip(cluster: &Cluster) -> Check {
    let address = copepod_e2e::address(cluster)?;
    copepod_e2e::fetch(cluster, Side::Node, &format!("http://{address}"))
}

fn chains(cluster: &Cluster) -> Check {
    let address = copepod_e2e::address(cluster)?;
    let services = node(cluster, "iptables -t nat -L KUBE-SERVICES -n --line-numbers")?;
    let line = services.lines().find(|l| l.contains(&address) && l.contains("KUBE-SVC-"));
    ensure(line.is_some(), || format!("no rule for {address} in\n{services}"))?;
    let saved = node(cluster, "iptables-save -t nat")?;
    for want in
        ["KUBE-SEP-", "KUBE-MARK-MASQ", "-j DNAT --to-destination 10.244.", "kubernetes service portals"]
    {
        ensure(saved.contains(want), || format!("{want:?} is missing in\n{saved}"))?;
    }
    let kubernetes = saved.contains("KUBE-SVC-NPX46M4PTMTKRN6Y");
    ensure(kubernetes, || "the chain of default/kubernetes has another name".to_owned())?;
    let listed = node(cluster, "nft list table ip nat")?;
    ensure(listed.contains("chain KUBE-SERVICES"), || format!("nft shows\n{listed}"))
}

fn cascade(cluster: &Cluster) -> Check {
    let saved = node(cluster, "iptables-save -t nat")?;
    let web = saved
        .lines()
        .filter(|l| l.contains("default/web") && l.contains("KUBE-SEP-") && l.starts_with("-A KUBE-SVC-"));
    let rules: Vec<&str> = web.collect();
    ensure(rules.len() == 3, || format!("three endpoints have the rules {rules:#?}"))?;
    let has = |rule: &str, probability: &str| rule.contains(&format!("--probability {probability}"));
    ensure(has(rules[0], "0.3333") && has(rules[1], "0.5000") && !rules[2].contains("probability"), || {
        format!("the cascade is {rules:#?}")
    })
}
