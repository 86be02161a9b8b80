//! What the runtime passes in the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::{CniError, code};

/// What the runtime asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Attach a container.
    Add,
    /// Detach a container.
    Del,
    /// Is the container still attached as ADD left it?
    Check,
    /// Release what no valid attachment owns.
    Gc,
    /// Could ADD be served now?
    Status,
    /// Which versions are spoken?
    Version,
}

/// One call's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The operation.
    pub command: Command,
    /// The sandbox's ID; empty for GC, STATUS and VERSION.
    pub container_id: String,
    /// The network namespace's path; empty when it has gone (DEL only).
    pub netns: PathBuf,
    /// The interface's name inside the container.
    pub ifname: String,
    /// `CNI_ARGS`, split.
    pub args: BTreeMap<String, String>,
}

impl Invocation {
    /// Reads an invocation from environment variables.
    ///
    /// # Errors
    /// Number 4, listing every missing or malformed variable at once.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Result<Self, CniError> {
        let var = |name: &str| get(name).filter(|v| !v.is_empty());
        let mut bad = Vec::new();
        let command = match var("CNI_COMMAND").as_deref() {
            Some("ADD") => Command::Add,
            Some("DEL") => Command::Del,
            Some("CHECK") => Command::Check,
            Some("GC") => Command::Gc,
            Some("STATUS") => Command::Status,
            Some("VERSION") => Command::Version,
            _ => return Err(invalid("CNI_COMMAND")),
        };
        let per_container = matches!(command, Command::Add | Command::Del | Command::Check);
        let container_id = var("CNI_CONTAINERID").unwrap_or_default();
        let ifname = var("CNI_IFNAME").unwrap_or_default();
        let netns = PathBuf::from(var("CNI_NETNS").unwrap_or_default());
        if per_container {
            if !is_valid_id(&container_id) {
                bad.push("CNI_CONTAINERID");
            }
            if !is_valid_ifname(&ifname) {
                bad.push("CNI_IFNAME");
            }
            if netns.as_os_str().is_empty() && command != Command::Del {
                bad.push("CNI_NETNS");
            }
        }
        let args = split_args(&var("CNI_ARGS").unwrap_or_default()).unwrap_or_else(|()| {
            bad.push("CNI_ARGS");
            BTreeMap::new()
        });
        if !bad.is_empty() {
            return Err(invalid(&bad.join(", ")));
        }
        Ok(Self { command, container_id, netns, ifname, args })
    }

    /// The Kubernetes pod this sandbox belongs to, as (namespace, name).
    #[must_use]
    pub fn pod(&self) -> Option<(&str, &str)> {
        let namespace = self.args.get("K8S_POD_NAMESPACE").filter(|v| !v.is_empty())?;
        let name = self.args.get("K8S_POD_NAME").filter(|v| !v.is_empty())?;
        Some((namespace, name))
    }
}

fn invalid(names: &str) -> CniError {
    CniError::new(code::INVALID_ENVIRONMENT, "invalid environment", format!("missing or malformed: {names}"))
}

/// `^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$`, the specification's rule for IDs and network names.
pub(crate) fn is_valid_id(id: &str) -> bool {
    id.starts_with(|c: char| c.is_ascii_alphanumeric())
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// The kernel's rule: 1 to 15 bytes, not `.` or `..`, no slash, colon or white space.
fn is_valid_ifname(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && !matches!(name, "." | "..")
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace())
}

fn split_args(text: &str) -> Result<BTreeMap<String, String>, ()> {
    text.split(';')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())).ok_or(()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(vars: &[(&str, &str)]) -> Result<Invocation, CniError> {
        let map: BTreeMap<String, String> = vars.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        Invocation::from_env(|name| map.get(name).cloned())
    }

    #[test]
    fn a_kubernetes_add_names_its_pod() {
        let call = parse(&[
            ("CNI_COMMAND", "ADD"),
            ("CNI_CONTAINERID", "abc"),
            ("CNI_NETNS", "/run/netns/x"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=nginx"),
        ])
        .unwrap();
        assert_eq!(call.pod(), Some(("default", "nginx")));
    }

    #[test]
    fn every_bad_variable_is_listed_at_once() {
        let error =
            parse(&[("CNI_COMMAND", "ADD"), ("CNI_CONTAINERID", "-x"), ("CNI_IFNAME", "a/b")]).unwrap_err();
        assert_eq!(error.code, 4);
        assert_eq!(error.details, "missing or malformed: CNI_CONTAINERID, CNI_IFNAME, CNI_NETNS");
    }

    #[test]
    fn del_needs_no_namespace_and_version_needs_nothing() {
        assert!(parse(&[("CNI_COMMAND", "DEL"), ("CNI_CONTAINERID", "a"), ("CNI_IFNAME", "eth0")]).is_ok());
        assert!(parse(&[("CNI_COMMAND", "VERSION")]).is_ok());
        assert_eq!(parse(&[("CNI_COMMAND", "NOPE")]).unwrap_err().code, 4);
    }
}
