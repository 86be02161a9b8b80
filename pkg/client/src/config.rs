//! Where the API server is and how a client proves who it is.

mod kubeconfig;

use std::path::{Path, PathBuf};

use crate::{ClientError, Result};

/// PEM data, or the file that holds it. Files are read again when they change.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// The data itself.
    Inline(Vec<u8>),
    /// A file.
    File(PathBuf),
}

impl std::fmt::Debug for Pem {
    /// Names the file, never the data: it may be a private key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("Inline"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl Pem {
    /// The bytes as they are now.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&self) -> Result<Vec<u8>> {
        match self {
            Self::Inline(data) => Ok(data.clone()),
            Self::File(path) => {
                std::fs::read(path).map_err(|source| ClientError::File { path: path.clone(), source })
            }
        }
    }
}

/// Who the client is.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum Identity {
    /// Nobody.
    #[default]
    Anonymous,
    /// A client certificate with its key.
    Certificate {
        /// Certificate chain.
        cert: Pem,
        /// Private key.
        key: Pem,
    },
    /// A bearer token.
    Token(String),
    /// A bearer token in a file, read again every minute and after a 401.
    TokenFile(PathBuf),
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Anonymous => f.write_str("Anonymous"),
            Self::Certificate { cert, .. } => f.debug_struct("Certificate").field("cert", cert).finish(),
            Self::Token(_) => f.write_str("Token"),
            Self::TokenFile(path) => f.debug_tuple("TokenFile").field(path).finish(),
        }
    }
}

/// What [`crate::Client::new`] needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// Base URL, such as `https://127.0.0.1:6443`. `http://` is accepted for tests and proxies on loopback.
    pub server: String,
    /// Authorities that may have signed the server's certificate; required for `https`.
    pub ca: Option<Pem>,
    /// The name the server's certificate must carry, when it is not the URL's host.
    pub tls_server_name: Option<String>,
    /// Who the client is.
    pub identity: Identity,
    /// `User-Agent`; the server takes the part before the slash as the field manager.
    pub user_agent: String,
}

impl ClientConfig {
    /// A client of `server` without authority, identity or name.
    #[must_use]
    pub fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            ca: None,
            tls_server_name: None,
            identity: Identity::Anonymous,
            user_agent: concat!("copepod/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    /// Reads a kubeconfig file and follows its current context.
    ///
    /// # Errors
    /// When the file cannot be read or parsed, a reference in it leads nowhere, or it asks for a way to log in that
    /// is not supported here (exec plugins, passwords, unverified TLS).
    pub fn from_kubeconfig(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ClientError::File { path: path.to_owned(), source })?;
        kubeconfig::parse(&text, path.parent().unwrap_or_else(|| Path::new(".")))
            .map_err(|why| ClientError::Config(format!("{}: {why}", path.display())))
    }

    /// The configuration of a pod: the service account files and the service's address from the environment.
    ///
    /// # Errors
    /// When the process does not run in a pod.
    pub fn in_cluster() -> Result<Self> {
        let base = Path::new("/var/run/secrets/kubernetes.io/serviceaccount");
        let var =
            |name: &str| std::env::var(name).map_err(|_| ClientError::Config(format!("{name} is not set")));
        let (host, port) = (var("KUBERNETES_SERVICE_HOST")?, var("KUBERNETES_SERVICE_PORT")?);
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        Ok(Self {
            ca: Some(Pem::File(base.join("ca.crt"))),
            identity: Identity::TokenFile(base.join("token")),
            ..Self::new(format!("https://{host}:{port}"))
        })
    }

    /// The same under another `User-Agent`.
    #[must_use]
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }
}
