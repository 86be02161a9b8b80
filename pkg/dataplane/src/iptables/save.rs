//! What is there already, from `iptables-save`, and the jumps that must be there.

use std::collections::{BTreeMap, BTreeSet};

/// A jump from a built-in chain: table, chain, and the rest as `iptables-save` prints it.
pub(crate) const JUMPS: [(&str, &str, &str); 13] = [
    ("nat", "PREROUTING", "-m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES"),
    ("nat", "OUTPUT", "-m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES"),
    ("nat", "POSTROUTING", "-m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING"),
    (
        "filter",
        "INPUT",
        "-m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL",
    ),
    (
        "filter",
        "OUTPUT",
        "-m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL",
    ),
    (
        "filter",
        "FORWARD",
        "-m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL",
    ),
    ("filter", "INPUT", "-m comment --comment \"kubernetes health check service ports\" -j KUBE-NODEPORTS"),
    (
        "filter",
        "INPUT",
        "-m conntrack --ctstate NEW -m comment --comment \"kubernetes externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES",
    ),
    (
        "filter",
        "FORWARD",
        "-m conntrack --ctstate NEW -m comment --comment \"kubernetes externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES",
    ),
    (
        "filter",
        "FORWARD",
        "-m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES",
    ),
    (
        "filter",
        "OUTPUT",
        "-m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES",
    ),
    ("filter", "FORWARD", "-m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD"),
    ("filter", "INPUT", "-j KUBE-FIREWALL"),
];
/// The jump to KUBE-FIREWALL that [`JUMPS`] lacks: the kubelet's own rule looks the same.
pub(crate) const FIREWALL_OUTPUT: (&str, &str, &str) = ("filter", "OUTPUT", "-j KUBE-FIREWALL");

/// The chain whose absence tells that tables were deleted.
pub(crate) const CANARY: &str = "KUBE-PROXY-CANARY";
/// Chains of ours besides those of single ports.
const FIXED: [&str; 10] = [
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-FORWARD",
    "KUBE-NODEPORTS",
    "KUBE-PROXY-FIREWALL",
    "KUBE-POSTROUTING",
    "KUBE-MARK-MASQ",
    "KUBE-FIREWALL",
    CANARY,
    "KUBE-MARK-DROP",
];
const OF_PORTS: [&str; 5] = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-"];

/// What `iptables-save` printed, as far as it concerns us.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Our chains by table.
    pub(crate) chains: BTreeSet<(String, String)>,
    /// Rules of built-in chains that lead to ours, by table.
    pub(crate) jumps: BTreeSet<(String, String)>,
    /// Number of rules in our chains by table.
    pub(crate) rules: BTreeMap<String, usize>,
}

pub(crate) fn is_of_port(chain: &str) -> bool {
    OF_PORTS.iter().any(|prefix| chain.starts_with(prefix))
}

fn is_ours(chain: &str) -> bool {
    is_of_port(chain) || FIXED.contains(&chain)
}

impl Saved {
    /// Reads `iptables-save`'s output.
    pub(crate) fn parse(text: &str) -> Self {
        let mut saved = Self::default();
        let mut table = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('*') {
                name.clone_into(&mut table);
            } else if let Some(rest) = line.strip_prefix(':') {
                let chain = rest.split(' ').next().unwrap_or_default();
                if is_ours(chain) {
                    saved.chains.insert((table.clone(), chain.to_owned()));
                }
            } else if let Some(rest) = line.strip_prefix("-A ") {
                let (chain, rule) = rest.split_once(' ').unwrap_or((rest, ""));
                let target = rule.rsplit_once("-j ").map_or("", |(_, target)| target);
                if is_ours(chain) {
                    *saved.rules.entry(table.clone()).or_default() += 1;
                } else if is_ours(target.split(' ').next().unwrap_or_default()) {
                    saved.jumps.insert((table.clone(), rest.to_owned()));
                }
            }
        }
        saved
    }

    pub(crate) fn has_jump(&self, (table, chain, rule): (&str, &str, &str)) -> bool {
        self.jumps.contains(&(table.to_owned(), format!("{chain} {rule}")))
    }

    /// Input for `iptables-restore` that removes all of it.
    pub(crate) fn removal(&self) -> String {
        let tables: BTreeSet<&String> =
            self.chains.iter().map(|(t, _)| t).chain(self.jumps.iter().map(|(t, _)| t)).collect();
        let mut out = String::new();
        for table in tables {
            out.push_str(&format!("*{table}\n"));
            let of_table = |set: &BTreeSet<(String, String)>| -> Vec<String> {
                set.iter().filter(|(t, _)| t == table).map(|(_, what)| what.clone()).collect()
            };
            let chains = of_table(&self.chains);
            chains.iter().for_each(|chain| out.push_str(&format!(":{chain} - [0:0]\n")));
            of_table(&self.jumps).iter().for_each(|rule| out.push_str(&format!("-D {rule}\n")));
            chains.iter().for_each(|chain| out.push_str(&format!("-X {chain}\n")));
            out.push_str("COMMIT\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# by iptables\n*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-AAA - [0:0]\n\
        :DOCKER - [0:0]\n-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
        -A PREROUTING -j DOCKER\n-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC-AAA\nCOMMIT\n";

    #[test]
    fn only_our_chains_and_the_jumps_to_them_count() {
        let saved = Saved::parse(TEXT);
        assert_eq!(saved.chains.len(), 2);
        assert!(saved.has_jump(JUMPS[0]) && !saved.has_jump(JUMPS[1]));
        assert_eq!(saved.rules["nat"], 1);
        let removal = saved.removal();
        assert!(
            removal.contains(
                "-D PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES"
            )
        );
        assert!(!removal.contains("DOCKER"));
    }

    #[test]
    fn nothing_of_ours_needs_no_removal() {
        assert_eq!(Saved::parse("*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n").removal(), "");
    }
}
