//! Connections to kubelets and to what is proxied: addresses, TLS, the client certificate.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use copepod_pki::ServerVerifier;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connect::Destination;
use crate::error::ServeError;
use crate::serve::tls;

const KUBELET_PORT: u16 = 10250;
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// A byte stream of either kind.
pub(crate) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// How to reach kubelets and proxied endpoints.
pub(crate) struct Kubelets {
    /// Address types in the order to try (`--kubelet-preferred-address-types`).
    address_types: Vec<String>,
    /// TLS to kubelets.
    kubelet: TlsConnector,
    /// TLS to pods and services: their certificates are not verified, as upstream.
    any: TlsConnector,
}

impl std::fmt::Debug for Kubelets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubelets").field("address_types", &self.address_types).finish_non_exhaustive()
    }
}

/// Files of the connection to kubelets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KubeletFiles<'a> {
    /// `--kubelet-client-certificate` and `--kubelet-client-key`.
    pub client: Option<(&'a Path, &'a Path)>,
    /// `--kubelet-certificate-authority`; without it certificates are not verified.
    pub authority: Option<&'a Path>,
}

impl Kubelets {
    /// Reads the files.
    pub(crate) fn load(files: KubeletFiles<'_>, address_types: &[String]) -> Result<Self, ServeError> {
        let types = if address_types.is_empty() {
            ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"].map(str::to_owned).to_vec()
        } else {
            address_types.to_vec()
        };
        let kubelet = client_config(files)?;
        let any = client_config(KubeletFiles { client: None, authority: None })?;
        Ok(Self {
            address_types: types,
            kubelet: TlsConnector::from(Arc::new(kubelet)),
            any: TlsConnector::from(Arc::new(any)),
        })
    }

    /// The address and port of a node's kubelet.
    pub(crate) fn address(&self, node: &Value) -> Result<(String, u16), String> {
        let addresses = node["status"]["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found = self.address_types.iter().find_map(|wanted| {
            addresses.iter().find(|a| a["type"].as_str() == Some(wanted)).and_then(|a| a["address"].as_str())
        });
        let port = node.pointer("/status/daemonEndpoints/kubeletEndpoint/Port").and_then(Value::as_u64);
        let port = port.and_then(|p| u16::try_from(p).ok()).filter(|p| *p != 0).unwrap_or(KUBELET_PORT);
        let name = copepod_api::meta::name(node);
        let none = || {
            format!(
                "no preferred addresses found for node {}; known addresses: []",
                copepod_api::field::quote(name)
            )
        };
        found.map(|host| (host.to_owned(), port)).ok_or_else(none)
    }

    /// Opens a connection.
    pub(crate) async fn dial(&self, to: &Destination) -> std::io::Result<Box<dyn Io>> {
        let connecting = async {
            let stream = TcpStream::connect((to.host.as_str(), to.port)).await?;
            stream.set_nodelay(true)?;
            if !to.tls {
                return Ok(Box::new(stream) as Box<dyn Io>);
            }
            let name = ServerName::try_from(to.host.clone()).map_err(std::io::Error::other)?;
            let connector = if to.kubelet { &self.kubelet } else { &self.any };
            Ok(Box::new(connector.connect(name, stream).await?) as Box<dyn Io>)
        };
        tokio::time::timeout(DIAL_TIMEOUT, connecting).await.map_err(|_| std::io::ErrorKind::TimedOut)?
    }
}

/// Without an authority any server certificate is taken: upstream's behaviour without
/// `--kubelet-certificate-authority` and for proxies.
fn client_config(files: KubeletFiles<'_>) -> Result<ClientConfig, ServeError> {
    let verifier = match files.authority {
        Some(path) => {
            let bad = || ServeError::Pem { path: path.to_owned(), what: "a certificate" };
            let authorities = CertificateDer::pem_slice_iter(&tls::read(path)?)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|_| bad())?;
            ServerVerifier::of(authorities).map_err(|_| bad())?
        }
        None => ServerVerifier::any(),
    };
    let builder = verifier.client();
    let config = match files.client {
        Some((certificate, key)) => {
            let (chain, private) = tls::key_pair(certificate, key)?;
            builder.with_client_auth_cert(chain, private).map_err(ServeError::Tls)?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(config)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn preferred_addresses() {
        let types = ["InternalIP".to_owned(), "Hostname".to_owned()];
        let kubelets = Kubelets::load(KubeletFiles { client: None, authority: None }, &types).unwrap();
        let node = json!({"metadata": {"name": "n"}, "status": {"addresses": [
            {"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.9"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10251}}}});
        assert_eq!(kubelets.address(&node).unwrap(), ("10.0.0.9".to_owned(), 10251));
        assert!(
            kubelets
                .address(&json!({"metadata": {"name": "n"}}))
                .unwrap_err()
                .contains("no preferred addresses")
        );
    }
}
