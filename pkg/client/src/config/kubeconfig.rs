//! The kubeconfig file: clusters, users and contexts by name.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{ClientConfig, Identity, Pem};

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct File {
    clusters: Vec<Named<Cluster>>,
    users: Vec<Named<User>>,
    contexts: Vec<Named<Context>>,
    current_context: String,
}

#[derive(Deserialize)]
struct Named<T> {
    name: String,
    #[serde(alias = "cluster", alias = "user", alias = "context")]
    entry: Option<T>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    tls_server_name: Option<String>,
    insecure_skip_tls_verify: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct User {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    username: Option<String>,
    exec: Option<serde_json::Value>,
    auth_provider: Option<serde_json::Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

/// Relative paths are meant from `base`, the folder of the file.
pub(super) fn parse(text: &str, base: &Path) -> Result<ClientConfig, String> {
    let file: File = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
    let context = find("context", &file.contexts, &file.current_context)?;
    let cluster = find("cluster", &file.clusters, &context.cluster)?;
    if cluster.insecure_skip_tls_verify {
        return Err("insecure-skip-tls-verify is not supported; name the certificate-authority".to_owned());
    }
    if cluster.server.is_empty() {
        return Err(format!("cluster {:?} has no server", context.cluster));
    }
    let identity = if context.user.is_empty() {
        Identity::Anonymous
    } else {
        identity(find("user", &file.users, &context.user)?, base)?
    };
    Ok(ClientConfig {
        ca: pem(cluster.certificate_authority_data.as_ref(), cluster.certificate_authority.as_ref(), base)?,
        tls_server_name: cluster.tls_server_name.clone(),
        identity,
        ..ClientConfig::new(cluster.server.trim_end_matches('/'))
    })
}

fn identity(user: &User, base: &Path) -> Result<Identity, String> {
    if user.exec.is_some() || user.auth_provider.is_some() || user.username.is_some() {
        return Err("only client certificates and tokens are supported as credentials".to_owned());
    }
    let cert = pem(user.client_certificate_data.as_ref(), user.client_certificate.as_ref(), base)?;
    let key = pem(user.client_key_data.as_ref(), user.client_key.as_ref(), base)?;
    match (cert, key) {
        (Some(cert), Some(key)) => return Ok(Identity::Certificate { cert, key }),
        (None, None) => {}
        _ => return Err("a client certificate needs both certificate and key".to_owned()),
    }
    Ok(match (&user.token_file, &user.token) {
        (Some(path), _) => Identity::TokenFile(base.join(path)),
        (None, Some(token)) => Identity::Token(token.clone()),
        (None, None) => Identity::Anonymous,
    })
}

fn pem(data: Option<&String>, path: Option<&PathBuf>, base: &Path) -> Result<Option<Pem>, String> {
    match (data, path) {
        (Some(data), _) => {
            let compact: String = data.split_whitespace().collect();
            let bytes = STANDARD.decode(compact).map_err(|e| format!("bad base64 data: {e}"))?;
            Ok(Some(Pem::Inline(bytes)))
        }
        (None, Some(path)) => Ok(Some(Pem::File(base.join(path)))),
        (None, None) => Ok(None),
    }
}

fn find<'a, T>(what: &str, list: &'a [Named<T>], name: &str) -> Result<&'a T, String> {
    let entry = list.iter().find(|e| e.name == name).and_then(|e| e.entry.as_ref());
    entry.ok_or_else(|| format!("no {what} named {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r"
apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: c, user: u}}
- {name: b, context: {cluster: c, user: gone}}
clusters:
- {name: c, cluster: {server: 'https://h:6443/', certificate-authority: ca.crt}}
users:
- {name: u, user: {client-certificate-data: QUJD, client-key: /keys/k.pem}}
";

    #[test]
    fn follows_the_context_and_resolves_paths() {
        let config = parse(TEXT, Path::new("/etc/k")).unwrap();
        assert_eq!(config.server, "https://h:6443");
        assert_eq!(config.ca, Some(Pem::File("/etc/k/ca.crt".into())));
        let identity = Identity::Certificate {
            cert: Pem::Inline(b"ABC".to_vec()),
            key: Pem::File("/keys/k.pem".into()),
        };
        assert_eq!(config.identity, identity);
    }

    #[test]
    fn names_what_is_missing_or_unsupported() {
        let dangling = TEXT.replace("current-context: a", "current-context: b");
        assert_eq!(parse(&dangling, Path::new("/")).unwrap_err(), "no user named \"gone\"");
        let exec =
            TEXT.replace("client-certificate-data: QUJD, client-key: /keys/k.pem", "exec: {command: x}");
        assert!(parse(&exec, Path::new("/")).unwrap_err().contains("only client certificates and tokens"));
        assert!(parse("current-context: [", Path::new("/")).is_err());
    }
}
