//! Pieces that the command lines of upstream's programs share.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use copepod_client::serving::ServingConfig;

/// Flags of serving health and metrics, as every upstream component has them.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Serving {
    /// The address to serve on
    #[arg(long, default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// Certificate of the server; made at start when absent
    #[arg(long, requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Authority of client certificates; the one that the API server publishes when absent
    #[arg(long)]
    client_ca_file: Option<PathBuf>,
    /// Kubeconfig for reviewing tokens
    #[arg(long)]
    authentication_kubeconfig: Option<PathBuf>,
    /// Kubeconfig for reviewing access
    #[arg(long)]
    authorization_kubeconfig: Option<PathBuf>,
}

impl Serving {
    /// Where to serve, and with which certificates.
    pub(crate) fn config(&self, port: u16) -> ServingConfig {
        ServingConfig {
            listen: SocketAddr::new(self.bind_address, port),
            cert: self.tls_cert_file.clone().zip(self.tls_private_key_file.clone()),
            client_ca: self.client_ca_file.clone(),
        }
    }
}

/// The host's name: a component's identity in leases and events.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
