//! The paths of a node. At root `/` they are upstream's, because third-party software hard-codes them.

use std::path::{Path, PathBuf};

/// All paths of a node, below one root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout below `root`; `/` on a real installation.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The root itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path of ours, written as if the root were `/`.
    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// `/etc/copepod/config.yaml`.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.at("etc/copepod/config.yaml")
    }

    /// `/etc/kubernetes`: kubeconfigs and manifests.
    #[must_use]
    pub fn kubernetes(&self) -> PathBuf {
        self.at("etc/kubernetes")
    }

    /// `/etc/kubernetes/manifests`: static pods.
    #[must_use]
    pub fn manifests(&self) -> PathBuf {
        self.at("etc/kubernetes/manifests")
    }

    /// `/var/lib/copepod`: everything that must survive a reboot and is ours.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.at("var/lib/copepod")
    }

    /// `/var/lib/copepod/pki`, linked from `/etc/kubernetes/pki`.
    #[must_use]
    pub fn pki(&self) -> PathBuf {
        self.data().join("pki")
    }

    /// `/etc/kubernetes/pki`, the name kubeadm's users know.
    #[must_use]
    pub fn pki_link(&self) -> PathBuf {
        self.kubernetes().join("pki")
    }

    /// `/var/lib/copepod/etcd`: etcd's data directory.
    #[must_use]
    pub fn etcd(&self) -> PathBuf {
        self.data().join("etcd")
    }

    /// `/var/lib/copepod/containerd`: images and snapshots.
    #[must_use]
    pub fn containerd_root(&self) -> PathBuf {
        self.data().join("containerd")
    }

    /// `/run/copepod`: sockets and pid files; gone after a reboot.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.at("run/copepod")
    }

    /// `/run/copepod/containerd`: the runtime's own state.
    #[must_use]
    pub fn containerd_state(&self) -> PathBuf {
        self.run().join("containerd")
    }

    /// `/run/copepod/containerd/containerd.sock`.
    #[must_use]
    pub fn containerd_socket(&self) -> PathBuf {
        self.containerd_state().join("containerd.sock")
    }

    /// `/run/copepod/containerd.pid`.
    #[must_use]
    pub fn containerd_pid(&self) -> PathBuf {
        self.run().join("containerd.pid")
    }

    /// `/etc/copepod/containerd.toml`; written at every start.
    #[must_use]
    pub fn containerd_config(&self) -> PathBuf {
        self.at("etc/copepod/containerd.toml")
    }

    /// `/etc/copepod/registry`: registry mirrors and credentials in containerd's `hosts.toml` form.
    #[must_use]
    pub fn registry_config(&self) -> PathBuf {
        self.at("etc/copepod/registry")
    }

    /// `/run/copepod/cni.sock`: where the CNI plugin asks for addresses.
    #[must_use]
    pub fn ipam_socket(&self) -> PathBuf {
        self.run().join("cni.sock")
    }

    /// `/var/lib/copepod/node`: node-local state (addresses, checkpoints).
    #[must_use]
    pub fn node_store(&self) -> PathBuf {
        self.data().join("node")
    }

    /// `/var/lib/kubelet`.
    #[must_use]
    pub fn kubelet(&self) -> PathBuf {
        self.at("var/lib/kubelet")
    }

    /// `/var/log/pods`.
    #[must_use]
    pub fn pod_logs(&self) -> PathBuf {
        self.at("var/log/pods")
    }

    /// `/var/log/containers`.
    #[must_use]
    pub fn container_logs(&self) -> PathBuf {
        self.at("var/log/containers")
    }

    /// `/var/log/copepod`: logs of the agent's own children.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.at("var/log/copepod")
    }

    /// `/etc/cni/net.d`.
    #[must_use]
    pub fn cni_config(&self) -> PathBuf {
        self.at("etc/cni/net.d")
    }

    /// `/opt/cni/bin`.
    #[must_use]
    pub fn cni_bin(&self) -> PathBuf {
        self.at("opt/cni/bin")
    }

    /// A kubeconfig below `/etc/kubernetes`, such as `admin`.
    #[must_use]
    pub fn kubeconfig(&self, name: &str) -> PathBuf {
        self.kubernetes().join(format!("{name}.conf"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_root_gives_upstreams_paths() {
        let layout = Layout::new("/");
        assert_eq!(layout.manifests(), Path::new("/etc/kubernetes/manifests"));
        assert_eq!(layout.kubelet(), Path::new("/var/lib/kubelet"));
        assert_eq!(Layout::new("/tmp/n").kubeconfig("admin"), Path::new("/tmp/n/etc/kubernetes/admin.conf"));
    }
}
