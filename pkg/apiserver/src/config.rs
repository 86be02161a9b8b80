//! The server's configuration: upstream's flags, with upstream's names and defaults.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgAction, Parser};
use ipnet::IpNet;

use crate::error::ServeError;

/// Flags of `kube-apiserver`. Only flags that do something here exist; any other is an error that names it.
#[derive(Debug, Clone, Parser)]
#[command(name = "kube-apiserver", no_binary_name = false, disable_version_flag = true)]
#[command(about = "Serves the Kubernetes API on etcd")]
pub struct Config {
    /// etcd endpoints, such as `https://127.0.0.1:2379`.
    #[arg(long, value_delimiter = ',', required = true)]
    pub etcd_servers: Vec<String>,
    /// The authority that signed etcd's certificate.
    #[arg(long)]
    pub etcd_cafile: Option<PathBuf>,
    /// The client certificate for etcd.
    #[arg(long)]
    pub etcd_certfile: Option<PathBuf>,
    /// Its key.
    #[arg(long)]
    pub etcd_keyfile: Option<PathBuf>,
    /// The prefix of all keys; only upstream's default is supported.
    #[arg(long, default_value = "/registry")]
    pub etcd_prefix: String,
    /// How often etcd's history is compacted; 0 never. Go durations such as `5m0s`.
    #[arg(long, default_value = "5m0s")]
    pub etcd_compaction_interval: String,
    /// How long events are kept, as a Go duration.
    #[arg(long, default_value = "1h0m0s")]
    pub event_ttl: String,

    /// The address to listen on.
    #[arg(long, default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// The port to listen on; 0 takes any free one.
    #[arg(long, default_value_t = 6443)]
    pub secure_port: u16,
    /// The address others reach this server at; by default the bind address, or that of the default route.
    #[arg(long)]
    pub advertise_address: Option<IpAddr>,
    /// The server's certificate and chain.
    #[arg(long, required = true)]
    pub tls_cert_file: PathBuf,
    /// Its key.
    #[arg(long, required = true)]
    pub tls_private_key_file: PathBuf,

    /// The authorities of client certificates; read again when the file changes.
    #[arg(long)]
    pub client_ca_file: Option<PathBuf>,
    /// Whether requests without credentials are `system:anonymous`.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub anonymous_auth: bool,
    /// A file of static bearer tokens: `token,user,uid,"group1,group2"`.
    #[arg(long)]
    pub token_auth_file: Option<PathBuf>,
    /// Whether Secrets of type `bootstrap.kubernetes.io/token` are bearer tokens.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub enable_bootstrap_token_auth: bool,
    /// The authorities of the front proxy's certificate.
    #[arg(long)]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of the front proxy; empty is any.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_allowed_names: Vec<String>,
    /// Headers with the user's name.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_username_headers: Vec<String>,
    /// Headers with the user's UID.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_uid_headers: Vec<String>,
    /// Headers with the user's groups.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_group_headers: Vec<String>,
    /// Prefixes of headers with further facts about the user.
    #[arg(long, value_delimiter = ',')]
    pub requestheader_extra_headers_prefix: Vec<String>,
    /// This server's client certificate as a front proxy, for aggregated servers.
    #[arg(long)]
    pub proxy_client_cert_file: Option<PathBuf>,
    /// Its key.
    #[arg(long)]
    pub proxy_client_key_file: Option<PathBuf>,
    /// Whether webhooks and aggregated servers are reached at endpoints instead of their Service's address.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub enable_aggregator_routing: bool,

    /// Authorizers in order: `Node`, `RBAC`, `AlwaysAllow`, `AlwaysDeny`.
    #[arg(long, value_delimiter = ',', default_value = "AlwaysAllow")]
    pub authorization_mode: Vec<String>,
    /// Admission plugins to run beside the default ones.
    #[arg(long, value_delimiter = ',')]
    pub enable_admission_plugins: Vec<String>,
    /// Admission plugins not to run.
    #[arg(long, value_delimiter = ',')]
    pub disable_admission_plugins: Vec<String>,
    /// Whether privileged containers are allowed.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub allow_privileged: bool,

    /// Issuers of ServiceAccount tokens; the first signs.
    #[arg(long, required = true)]
    pub service_account_issuer: Vec<String>,
    /// Files of keys that verify ServiceAccount tokens; by default the signing key.
    #[arg(long)]
    pub service_account_key_file: Vec<PathBuf>,
    /// The key that signs ServiceAccount tokens.
    #[arg(long, required = true)]
    pub service_account_signing_key_file: PathBuf,
    /// The address of the key set in the OIDC discovery document.
    #[arg(long, default_value = "")]
    pub service_account_jwks_uri: String,
    /// Whether kubelets' tokens are made to live for a year, so that old clients do not fail.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub service_account_extend_token_expiration: bool,
    /// Audiences of this server; by default the issuers.
    #[arg(long, value_delimiter = ',')]
    pub api_audiences: Vec<String>,

    /// Ranges of Service addresses, at most one a family.
    #[arg(long, value_delimiter = ',', default_value = "10.0.0.0/24")]
    pub service_cluster_ip_range: Vec<IpNet>,
    /// Ports of NodePort Services, such as `30000-32767`.
    #[arg(long, default_value = "30000-32767")]
    pub service_node_port_range: String,

    /// The client certificate for kubelets.
    #[arg(long)]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long)]
    pub kubelet_client_key: Option<PathBuf>,
    /// The authority of kubelets' certificates; without it they are not verified.
    #[arg(long)]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// Types of node addresses, in the order to try.
    #[arg(long, value_delimiter = ',')]
    pub kubelet_preferred_address_types: Vec<String>,

    /// Log verbosity; accepted for upstream's manifests, `RUST_LOG` decides.
    #[arg(long = "v", short = 'v', default_value_t = 0)]
    pub verbosity: u8,
}

impl Config {
    /// Whether an admission plugin runs.
    #[must_use]
    pub fn admission_enabled(&self, plugin: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|p| p == plugin);
        if listed(&self.disable_admission_plugins) {
            return false;
        }
        listed(&self.enable_admission_plugins) || crate::admission::DEFAULT_ON.contains(&plugin)
    }

    /// The first and last port of NodePort Services.
    ///
    /// # Errors
    /// When the range is not `<first>-<last>`.
    pub fn node_ports(&self) -> Result<(u16, u16), ServeError> {
        let text = self.service_node_port_range.as_str();
        let parsed =
            text.split_once('-').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
        parsed.filter(|(a, b): &(u16, u16)| *a > 0 && a <= b).ok_or_else(|| ServeError::Flag {
            flag: "service-node-port-range",
            why: format!("{text:?} is not a range of ports"),
        })
    }

    /// The address others reach this server at.
    ///
    /// # Errors
    /// When none is given and the machine has no route to tell.
    pub fn advertised(&self) -> Result<IpAddr, ServeError> {
        if let Some(address) = self.advertise_address {
            return Ok(address);
        }
        if !self.bind_address.is_unspecified() {
            return Ok(self.bind_address);
        }
        // Connecting a datagram socket sends nothing; it only asks for the route.
        let probe = || -> std::io::Result<IpAddr> {
            let socket = std::net::UdpSocket::bind((self.bind_address, 0))?;
            let target = if self.bind_address.is_ipv4() { "192.0.2.1:9" } else { "[2001:db8::1]:9" };
            socket.connect(target)?;
            Ok(socket.local_addr()?.ip())
        };
        probe().map_err(|e| ServeError::Flag {
            flag: "advertise-address",
            why: format!("not given, and there is no default route to tell ({e})"),
        })
    }

    /// Audiences of this server.
    #[must_use]
    pub fn audiences(&self) -> Vec<String> {
        if self.api_audiences.is_empty() {
            self.service_account_issuer.clone()
        } else {
            self.api_audiences.clone()
        }
    }

    /// Checks what the parser cannot. All problems are named at once.
    ///
    /// # Errors
    /// A flag with a value that cannot work.
    pub fn check(&self) -> Result<(), ServeError> {
        let flag = |flag, why: String| Err(ServeError::Flag { flag, why });
        for mode in &self.authorization_mode {
            if !matches!(mode.as_str(), "Node" | "RBAC" | "AlwaysAllow" | "AlwaysDeny") {
                return flag("authorization-mode", format!("unknown mode {mode:?}"));
            }
        }
        for plugin in self.enable_admission_plugins.iter().chain(&self.disable_admission_plugins) {
            let known = crate::admission::DEFAULT_ON.contains(&plugin.as_str())
                || crate::admission::ACCEPTED.contains(&plugin.as_str());
            if !known {
                return flag("enable-admission-plugins", format!("unknown plugin {plugin:?}"));
            }
        }
        if self.etcd_prefix.trim_matches('/') != "registry" {
            return flag("etcd-prefix", "only /registry is supported".to_owned());
        }
        if self.etcd_cafile.is_some() != self.etcd_certfile.is_some()
            || self.etcd_certfile.is_some() != self.etcd_keyfile.is_some()
        {
            return flag(
                "etcd-cafile",
                "give etcd-cafile, etcd-certfile and etcd-keyfile together".to_owned(),
            );
        }
        if self.kubelet_client_certificate.is_some() != self.kubelet_client_key.is_some() {
            return flag("kubelet-client-certificate", "certificate and key belong together".to_owned());
        }
        go_duration("etcd-compaction-interval", &self.etcd_compaction_interval)?;
        go_duration("event-ttl", &self.event_ttl)?;
        self.node_ports().map(drop)
    }
}

/// Parses a Go duration such as `1h30m0s` or `250ms`, which is not negative.
pub(crate) fn go_duration(flag: &'static str, text: &str) -> Result<std::time::Duration, ServeError> {
    copepod_api::duration::parse_positive(text).map_err(|why| ServeError::Flag { flag, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &[&str] = &[
        "kube-apiserver",
        "--etcd-servers=http://127.0.0.1:2379",
        "--tls-cert-file=c",
        "--tls-private-key-file=k",
        "--service-account-issuer=https://x",
        "--service-account-signing-key-file=s",
    ];

    #[test]
    fn upstreams_argv() {
        let more = [
            "--allow-privileged=true",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-cluster-ip-range=10.96.0.0/12",
            "--anonymous-auth=false",
        ];
        let config = Config::try_parse_from(MINIMAL.iter().chain(&more)).unwrap();
        config.check().unwrap();
        assert!(config.allow_privileged && !config.anonymous_auth);
        assert!(config.admission_enabled("NodeRestriction") && config.admission_enabled("Priority"));
        assert!(!Config::try_parse_from(MINIMAL).unwrap().admission_enabled("NodeRestriction"));
        assert_eq!(config.node_ports().unwrap(), (30000, 32767));
    }

    #[test]
    fn unknown_flags_and_values_are_named() {
        let error = Config::try_parse_from(MINIMAL.iter().chain(&["--frobnicate=1"])).unwrap_err();
        assert!(error.to_string().contains("--frobnicate"), "{error}");
        let bad = |flag| {
            Config::try_parse_from(MINIMAL.iter().chain(&[flag])).unwrap().check().unwrap_err().to_string()
        };
        assert!(bad("--authorization-mode=Webhook").contains("authorization-mode"));
        assert!(bad("--enable-admission-plugins=Foo").contains("Foo"));
        assert!(bad("--event-ttl=soon").contains("event-ttl"));
        assert!(bad("--service-node-port-range=9-1").contains("service-node-port-range"));
    }

    #[test]
    fn durations() {
        let seconds = |text| go_duration("x", text).unwrap().as_millis();
        assert_eq!(seconds("1h0m0s"), 3_600_000);
        assert_eq!(seconds("1.5s"), 1500);
        assert_eq!(seconds("250ms"), 250);
    }
}
