//! Everything between an empty machine and a running control plane: PKI layout, manifests, kubeconfigs, containerd.
