//! Which endpoints serve a port, and what happens where there are none.
//!
//! The rules are kube-proxy's: under the Cluster policy ready endpoints, narrowed by topology hints when every ready
//! endpoint has them, else those that are terminating but still serve; under the Local policy the same among the
//! endpoints of this node; independently of each other.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::endpoints::Endpoint;
use crate::input::NodeFacts;
use crate::rules::{Backend, Route};

/// The endpoints of one port by address.
pub(crate) type Endpoints<'a> = BTreeMap<SocketAddr, &'a Endpoint>;

/// Which policies a port's traffic follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policies {
    /// `internalTrafficPolicy: Local`.
    pub(crate) internal_local: bool,
    /// `externalTrafficPolicy: Local`.
    pub(crate) external_local: bool,
    /// The port has addresses besides the cluster address.
    pub(crate) external: bool,
}

impl Policies {
    /// Pods and the node itself reach a Local external address by the Cluster policy, so it counts here.
    fn uses_cluster(self) -> bool {
        !self.internal_local || self.external
    }

    fn uses_local(self) -> bool {
        self.internal_local || (self.external && self.external_local)
    }
}

/// The outcome for one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) cluster: Vec<Backend>,
    pub(crate) local: Vec<Backend>,
    pub(crate) internal: Route,
    pub(crate) external: Route,
}

/// Chooses endpoints and routes.
pub(crate) fn choose(endpoints: &Endpoints<'_>, policies: Policies, node: &NodeFacts) -> Choice {
    let cluster = if policies.uses_cluster() { choose_cluster(endpoints, node) } else { Vec::new() };
    let local = if policies.uses_local() { choose_local(endpoints) } else { Vec::new() };
    let any = !cluster.is_empty()
        || (policies.uses_local() && endpoints.values().any(|e| e.ready || (e.serving && e.terminating)));
    let route = |is_local: bool| match (any, is_local) {
        (false, _) => Route::Reject,
        (true, true) if local.is_empty() => Route::Drop,
        (true, true) => Route::Local,
        (true, false) => Route::Cluster,
    };
    Choice {
        internal: route(policies.internal_local),
        external: route(policies.external_local),
        cluster,
        local,
    }
}

fn backends<'a>(endpoints: &Endpoints<'a>, keep: impl Fn(&Endpoint) -> bool) -> Vec<Backend> {
    endpoints
        .iter()
        .filter(|(_, e)| keep(e))
        .map(|(address, e)| Backend { address: *address, local: e.local })
        .collect()
}

fn is_draining(e: &Endpoint) -> bool {
    e.serving && e.terminating
}

fn choose_cluster(endpoints: &Endpoints<'_>, node: &NodeFacts) -> Vec<Backend> {
    let topology = topology(endpoints, node);
    let ready = backends(endpoints, |e| e.ready && topology.admits(e, node));
    if ready.is_empty() { backends(endpoints, is_draining) } else { ready }
}

fn choose_local(endpoints: &Endpoints<'_>) -> Vec<Backend> {
    let ready = backends(endpoints, |e| e.local && e.ready);
    if ready.is_empty() { backends(endpoints, |e| e.local && is_draining(e)) } else { ready }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Topology {
    Any,
    SameNode,
    SameZone,
}

impl Topology {
    fn admits(self, e: &Endpoint, node: &NodeFacts) -> bool {
        match self {
            Self::Any => true,
            Self::SameNode => e.nodes.iter().any(|n| **n == *node.name),
            Self::SameZone => e.zones.iter().any(|z| **z == *node.zone),
        }
    }
}

/// Hints count only when every ready endpoint has them and one of them means us.
fn topology(endpoints: &Endpoints<'_>, node: &NodeFacts) -> Topology {
    let ready: Vec<&Endpoint> = endpoints.values().filter(|e| e.ready).copied().collect();
    let applies = |topology: Topology, has_hints: fn(&Endpoint) -> bool| {
        ready.iter().all(|e| has_hints(e)) && ready.iter().any(|e| topology.admits(e, node))
    };
    if applies(Topology::SameNode, |e| !e.nodes.is_empty()) {
        Topology::SameNode
    } else if applies(Topology::SameZone, |e| !e.zones.is_empty()) {
        Topology::SameZone
    } else {
        Topology::Any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: Policies = Policies { internal_local: false, external_local: false, external: true };
    const EXTERNAL_LOCAL: Policies = Policies { internal_local: false, external_local: true, external: true };

    /// `R` ready, `T` serving and terminating, `N` not ready; `*` on this node; `@z` and `#n` are hints.
    fn endpoints(text: &str) -> Vec<Endpoint> {
        text.split_whitespace()
            .enumerate()
            .map(|(i, word)| {
                let hint =
                    |mark: char| word.split_once(mark).map(|(_, v)| vec![v.into()]).unwrap_or_default();
                Endpoint {
                    ip: std::net::IpAddr::from([10, 0, 0, u8::try_from(i).unwrap() + 1]),
                    ready: word.starts_with('R'),
                    serving: !word.starts_with('N'),
                    terminating: word.starts_with('T'),
                    local: word.contains('*'),
                    zones: hint('@'),
                    nodes: hint('#'),
                }
            })
            .collect()
    }

    fn run(text: &str, policies: Policies) -> String {
        let list = endpoints(text);
        let map = list.iter().map(|e| (SocketAddr::new(e.ip, 80), e)).collect();
        let node = NodeFacts { name: "n1".into(), zone: "z1".into(), ..NodeFacts::default() };
        let choice = choose(&map, policies, &node);
        let show = |list: &[Backend]| {
            list.iter()
                .map(|b| b.address.ip().to_string().replace("10.0.0.", ""))
                .collect::<Vec<_>>()
                .join(",")
        };
        format!(
            "cluster=[{}] local=[{}] internal={:?} external={:?}",
            show(&choice.cluster),
            show(&choice.local),
            choice.internal,
            choice.external
        )
    }

    #[test]
    fn the_verdict_table() {
        let table = [
            ("", CLUSTER, "cluster=[] local=[] internal=Reject external=Reject"),
            ("N", CLUSTER, "cluster=[] local=[] internal=Reject external=Reject"),
            ("R R N", CLUSTER, "cluster=[1,2] local=[] internal=Cluster external=Cluster"),
            ("T N", CLUSTER, "cluster=[1] local=[] internal=Cluster external=Cluster"),
            ("R T*", CLUSTER, "cluster=[1] local=[] internal=Cluster external=Cluster"),
            ("R R*", EXTERNAL_LOCAL, "cluster=[1,2] local=[2] internal=Cluster external=Local"),
            ("R", EXTERNAL_LOCAL, "cluster=[1] local=[] internal=Cluster external=Drop"),
            ("R T*", EXTERNAL_LOCAL, "cluster=[1] local=[2] internal=Cluster external=Local"),
            ("", EXTERNAL_LOCAL, "cluster=[] local=[] internal=Reject external=Reject"),
            ("R@z1 R@z2", CLUSTER, "cluster=[1] local=[] internal=Cluster external=Cluster"),
            ("R@z2 R@z3", CLUSTER, "cluster=[1,2] local=[] internal=Cluster external=Cluster"),
            ("R@z1 R", CLUSTER, "cluster=[1,2] local=[] internal=Cluster external=Cluster"),
            ("R#n1 R#n2", CLUSTER, "cluster=[1] local=[] internal=Cluster external=Cluster"),
            ("R#n2@z1 R#n2@z1", CLUSTER, "cluster=[1,2] local=[] internal=Cluster external=Cluster"),
        ];
        for (input, policies, expected) in table {
            assert_eq!(run(input, policies), expected, "{input:?} {policies:?}");
        }
    }

    #[test]
    fn a_local_internal_policy_needs_no_cluster_endpoints() {
        let policies = Policies { internal_local: true, external_local: false, external: false };
        assert_eq!(run("R R*", policies), "cluster=[] local=[2] internal=Local external=Cluster");
        assert_eq!(run("R", policies), "cluster=[] local=[] internal=Drop external=Cluster");
    }
}
