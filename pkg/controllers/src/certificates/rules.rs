//! What each signer signs. Pure.

use rcgen::{CertificateParams, DnType, DnValue, SanType};

/// Signer of kubelets' client certificates.
pub(super) const CLIENT_KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const SERVING_KUBELET: &str = "kubernetes.io/kubelet-serving";
const NODES: &str = "system:nodes";
const NODE: &str = "system:node:";

/// What a request asks for.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
    /// DNS names and addresses.
    pub(super) hosts: usize,
    /// Names of other kinds.
    pub(super) others: usize,
    /// Sorted.
    pub(super) usages: Vec<String>,
}

impl Wish {
    pub(super) fn of(params: &CertificateParams, usages: &[String]) -> Self {
        let text = |value: &DnValue| match value {
            DnValue::Utf8String(text) => text.clone(),
            DnValue::PrintableString(text) => text.as_str().to_owned(),
            DnValue::Ia5String(text) => text.as_str().to_owned(),
            // Other encodings never occur in what Kubernetes asks for; an empty name fits no rule.
            _ => String::new(),
        };
        let mut wish = Self { usages: usages.to_vec(), ..Self::default() };
        wish.usages.sort();
        for (kind, value) in params.distinguished_name.iter() {
            match kind {
                DnType::CommonName => wish.common_name = text(value),
                DnType::OrganizationName => wish.organizations.push(text(value)),
                _ => {}
            }
        }
        let host = |name: &&SanType| matches!(name, SanType::DnsName(_) | SanType::IpAddress(_));
        wish.hosts = params.subject_alt_names.iter().filter(host).count();
        wish.others = params.subject_alt_names.len() - wish.hosts;
        wish
    }

    fn asks_for(&self, purpose: &str) -> bool {
        let with = |extra: &[&str]| {
            let mut all: Vec<&str> = [&[purpose, "digital signature"], extra].concat();
            all.sort_unstable();
            self.usages == all
        };
        with(&[]) || with(&["key encipherment"])
    }

    fn node(&self) -> bool {
        self.organizations == [NODES] && self.common_name.starts_with(NODE)
    }
}

/// A kubelet's request for a client certificate.
pub(super) fn recognized_kubelet(wish: &Wish) -> bool {
    wish.node() && wish.hosts + wish.others == 0 && wish.asks_for("client auth")
}

/// Whether a signer signs this: `None` if it is not one of ours, an error if it asks for too much.
pub(super) fn signable(signer: &str, wish: &Wish) -> Option<Result<(), &'static str>> {
    let check = |ok: bool, why| Some(if ok { Ok(()) } else { Err(why) });
    match signer {
        CLIENT_KUBELET => check(recognized_kubelet(wish), "not a kubelet's client certificate"),
        SERVING_KUBELET => check(
            wish.node() && wish.hosts > 0 && wish.others == 0 && wish.asks_for("server auth"),
            "not a kubelet's serving certificate",
        ),
        CLIENT => {
            let allowed = ["client auth", "digital signature", "key encipherment"];
            let ok = wish.usages.iter().any(|u| u == "client auth")
                && wish.usages.iter().all(|u| allowed.contains(&u.as_str()));
            check(ok, "usages do not match those of client certificates")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(name: &str, organization: &str, hosts: usize, usages: &[&str]) -> Wish {
        let mut usages: Vec<_> = usages.iter().map(|u| (*u).to_owned()).collect();
        usages.sort();
        Wish { common_name: name.into(), organizations: vec![organization.into()], hosts, others: 0, usages }
    }

    #[test]
    fn signers_sign_what_is_theirs_and_nothing_more() {
        let client = ["client auth", "digital signature"];
        let server = ["server auth", "digital signature", "key encipherment"];
        let kubelet = wish("system:node:n", NODES, 0, &client);
        assert!(recognized_kubelet(&kubelet));
        assert!(!recognized_kubelet(&wish("system:node:n", "system:masters", 0, &client)));
        assert!(!recognized_kubelet(&wish("system:node:n", NODES, 1, &client)));
        assert!(!recognized_kubelet(&wish("system:node:n", NODES, 0, &server)));
        assert_eq!(signable(SERVING_KUBELET, &wish("system:node:n", NODES, 1, &server)), Some(Ok(())));
        assert!(signable(SERVING_KUBELET, &kubelet).is_some_and(|r| r.is_err()));
        assert_eq!(signable(CLIENT, &wish("me", "", 0, &["client auth"])), Some(Ok(())));
        assert!(
            signable(CLIENT, &wish("me", "", 0, &["client auth", "server auth"])).is_some_and(|r| r.is_err())
        );
        assert_eq!(signable("example.com/x", &kubelet), None);
    }
}
