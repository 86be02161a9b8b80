//! The resolvers of the machine, from `resolv.conf`.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Resolvers used at most, as libc has it.
const MOST: usize = 3;

/// The `nameserver` lines of `text` that are not this server: neither loopback nor one of `own`.
pub(crate) fn parse(text: &str, own: &[IpAddr]) -> Vec<SocketAddr> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .filter_map(|rest| rest.split_whitespace().next())
        // A scope ("fe80::1%eth0") has no meaning in another namespace.
        .filter_map(|address| address.parse::<IpAddr>().ok())
        .filter(|ip| !ip.is_loopback() && !ip.is_unspecified() && !own.contains(ip))
        .take(MOST)
        .map(|ip| SocketAddr::new(ip, 53))
        .collect()
}

/// Reads the file; one that cannot be read names nobody.
pub(crate) fn read(path: &Path, own: &[IpAddr]) -> Vec<SocketAddr> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, own),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "no upstream resolvers");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ourselves_and_loopback_are_left_out() {
        let text = "# made by hand\nsearch a.b\nnameserver 127.0.0.53\nnameserver 10.96.0.10\n nameserver 192.0.2.1 # x\nnameserver nonsense\n";
        let own = ["10.96.0.10".parse().unwrap()];
        assert_eq!(parse(text, &own), ["192.0.2.1:53".parse().unwrap()]);
    }
}
