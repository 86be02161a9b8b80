//! Upstream's components in a node, for real: needs root and `cargo xtask upstream build all`.
#![allow(missing_docs, reason = "a test")]

use copepod_testkit::{Node, Oracle, Parts, dispatch};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    dispatch();
    let trials = vec![
        Trial::test("upstreams_control_plane_makes_pods_of_a_deployment", control_plane),
        Trial::test("upstreams_node_becomes_ready", whole_node),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn control_plane() -> Result<(), Failed> {
    let mut node = Node::builder().name("oracle").start()?;
    let oracle = Oracle::start(&mut node, &Parts::control_plane())?;
    oracle.kubectl(&node, &["create", "deployment", "web", "--image=registry.test/web:1", "--replicas=2"])?;
    let pods = |oracle: &Oracle| {
        let names = oracle.kubectl(&node, &["get", "pods", "-l", "app=web", "-o", "name"]);
        names.is_ok_and(|names| names.lines().count() == 2)
    };
    oracle.wait_for(&node, "kube-controller-manager", pods)?;
    node.stop()?;
    Ok(())
}

fn whole_node() -> Result<(), Failed> {
    let mut node = Node::builder().name("oracle").start()?;
    let oracle = Oracle::start(&mut node, &Parts::everything())?;
    let ready = |oracle: &Oracle| {
        let path = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}";
        oracle.kubectl(&node, &["get", "nodes", "-o", path]).is_ok_and(|status| status == "True")
    };
    oracle.wait_for(&node, "kubelet", ready)?;
    let cgroups = node.exec(&["/bin/sh", "-c", "find /sys/fs/cgroup -maxdepth 3 -type d -name kubepods"])?;
    assert!(!cgroups.stdout.is_empty(), "the kubelet made its cgroups inside the node's");
    node.stop()?;
    Ok(())
}
