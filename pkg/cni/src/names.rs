//! Names derived from a call.

use sha1::{Digest, Sha1};

use crate::args::Invocation;

/// The host side's name: `cali` and eleven hexadecimal digits of SHA-1 over `namespace.pod`, or, outside Kubernetes,
/// eleven characters of the container's ID (Calico's rule; tools look for it).
#[must_use]
pub fn host_interface(call: &Invocation) -> String {
    let suffix: String = match call.pod() {
        Some((namespace, name)) => {
            let digest = Sha1::digest(format!("{namespace}.{name}"));
            digest.iter().map(|byte| format!("{byte:02x}")).collect()
        }
        None => call.container_id.clone(),
    };
    suffix.chars().take(11).fold(String::from("cali"), |mut name, c| {
        name.push(c);
        name
    })
}

/// What an address is owned by: the network, the sandbox and the interface.
#[must_use]
pub fn handle(network: &str, container_id: &str, ifname: &str) -> String {
    format!("{network}.{container_id}.{ifname}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::args::Command;

    #[test]
    fn the_published_sample_matches() {
        let mut call = Invocation {
            command: Command::Add,
            container_id: "0123456789abcdef".into(),
            netns: "/x".into(),
            ifname: "eth0".into(),
            args: BTreeMap::from([
                ("K8S_POD_NAMESPACE".into(), "default".into()),
                ("K8S_POD_NAME".into(), "nginx".into()),
            ]),
        };
        assert_eq!(host_interface(&call), "calic440f455693");
        call.args.clear();
        assert_eq!(host_interface(&call), "cali0123456789a");
    }
}
