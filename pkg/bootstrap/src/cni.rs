//! The pod network's configuration and plugins, where the runtime looks for them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::{BootstrapError, file};
use crate::node::Node;
use crate::write::{make_dir, write_if_changed};

/// The file's name: early in the order, so that a file of another plugin does not win by accident.
pub const CONFLIST: &str = "10-copepod.conflist";
/// The plugin, and the names under which other configurations ask for what it does.
pub(crate) const PLUGIN: &str = "copepod-cni";
pub(crate) const ALIASES: [&str; 5] = ["calico", "calico-ipam", "loopback", "portmap", "bandwidth"];

/// Puts the plugin and its configuration in place; what another vendor has put there stays.
///
/// # Errors
/// Names the file that cannot be written.
pub fn ensure(node: &Node) -> Result<(), BootstrapError> {
    let (bin, conf) = (node.layout.cni_bin(), node.layout.cni_config());
    make_dir(&bin)?;
    make_dir(&conf)?;
    let source = node.program(PLUGIN);
    if !source.exists() {
        return Err(BootstrapError::MissingProgram { program: source, bundle: node.bundle.clone() });
    }
    install(&source, &bin.join(PLUGIN))?;
    for alias in ALIASES {
        let link = bin.join(alias);
        if link.symlink_metadata().is_err() {
            std::os::unix::fs::symlink(PLUGIN, &link).map_err(file("link", &link))?;
        }
    }
    let text = format!("{:#}\n", conflist(node));
    write_if_changed(&conf.join(CONFLIST), &text, 0o644)?;
    Ok(())
}

/// Replaces the plugin in one step: a pod may be starting at this moment.
fn install(source: &Path, target: &Path) -> Result<(), BootstrapError> {
    let new = fs::read(source).map_err(file("read", source))?;
    if fs::read(target).is_ok_and(|present| present == new) {
        return Ok(());
    }
    let temporary = target.with_extension("new");
    fs::copy(source, &temporary).map_err(file("write", &temporary))?;
    fs::rename(&temporary, target).map_err(file("replace", target))
}

fn conflist(node: &Node) -> Value {
    json!({
        "cniVersion": "1.1.0",
        "name": "k8s-pod-network",
        "plugins": [{
            "type": PLUGIN,
            "socket": node.layout.ipam_socket(),
            "capabilities": {"portMappings": true, "bandwidth": true},
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use copepod_config::{Layout, NodeConfig};

    #[test]
    fn installed_once_and_replaced_when_it_differs() {
        let root = tempfile::tempdir().unwrap();
        let bundle = root.path().join("bundle");
        fs::create_dir_all(bundle.join("bin")).unwrap();
        let config = NodeConfig { node_ips: vec!["192.168.9.2".parse().unwrap()], ..NodeConfig::default() };
        let node = Node::resolve(Layout::new(root.path()), config, &bundle).unwrap();
        assert!(matches!(ensure(&node), Err(BootstrapError::MissingProgram { .. })));
        for text in ["one", "two"] {
            fs::write(bundle.join("bin/copepod-cni"), text).unwrap();
            ensure(&node).unwrap();
            assert_eq!(fs::read_to_string(node.layout.cni_bin().join("calico")).unwrap(), text);
        }
        let text = fs::read_to_string(node.layout.cni_config().join(CONFLIST)).unwrap();
        assert!(text.contains("k8s-pod-network") && text.contains("cni.sock"), "{text}");
    }
}
