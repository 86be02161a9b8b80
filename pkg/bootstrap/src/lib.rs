//! Everything between an empty machine and a running control plane.
//!
//! In the order a start walks through it: [`preflight`] says everything that stands in the way at once; [`pki`] makes
//! sure of the authorities and certificates (kubeadm's names, authorities never regenerated); [`kubeconfig`] gives each
//! component its own identity; [`manifests`] writes the four static pods; [`containerd`] starts or adopts our own
//! runtime. What the cluster itself must hold for the appliance to be useful (the DNS Deployment) is in [`addons`].
//!
//! Every step can run again at each start and changes nothing that already is as it should be. Rendering is pure and
//! tested; writing is atomic.

pub mod addons;
pub mod cni;
pub mod containerd;
mod error;
pub mod instance;
pub mod kubeconfig;
pub mod manifests;
pub mod node;
pub mod pki;
pub mod preflight;
pub mod teardown;
mod write;

pub use error::BootstrapError;
pub use node::Node;
