//! A node with containerd and this crate's kubelet on it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use copepod_image::{Entry, Recipe};
use copepod_kubelet::Config;
use copepod_kubelet::config::ServerConfig;
use copepod_testkit::{Node, Service, upstream};
use libtest_mimic::Failed;
use tokio_util::sync::CancellationToken;

/// First argument of the copy of this program that is the kubelet.
pub const KUBELET: &str = "be-the-kubelet";
/// Where the node reads manifests.
pub const MANIFESTS: &str = "/etc/kubernetes/manifests";
const SOCKET: &str = "/run/containerd/containerd.sock";

/// What keeps the tests from running here.
pub fn missing() -> Option<String> {
    for program in ["containerd", "containerd-shim-runc-v2", "runc", "ctr", "crictl"] {
        if let Err(error) = upstream(program) {
            return Some(error.to_string());
        }
    }
    if !Path::new("/usr/bin/busybox").exists() {
        return Some("Debian's busybox-static is not installed".to_owned());
    }
    (!rustix::process::geteuid().is_root()).then(|| "root is needed".to_owned())
}

/// Runs the kubelet as configured by the environment until SIGTERM.
pub fn be_kubelet() {
    tracing_subscriber::fmt().with_env_filter("info,copepod_kubelet=debug").with_ansi(false).init();
    let config = Config {
        node_name: "node1".to_owned(),
        static_pod_path: Some(MANIFESTS.into()),
        runtime_endpoint: format!("unix://{SOCKET}"),
        kubeconfig: std::env::var_os("KUBELET_KUBECONFIG").map(PathBuf::from),
        cgroup_root: std::env::var("KUBELET_CGROUP_ROOT").unwrap_or_else(|_| "/".to_owned()),
        cluster_dns: vec!["10.96.0.10".parse().unwrap()],
        server: std::env::var_os("KUBELET_KUBECONFIG").map(|_| ServerConfig {
            bind: "0.0.0.0:10250".parse().unwrap(),
            cert_file: None,
            key_file: None,
            client_ca_file: Some("/etc/kubernetes/pki/ca.crt".into()),
        }),
        oom_score_adj: None,
        // The disk is the machine's: how full it is must not decide a test.
        eviction_hard: std::collections::BTreeMap::new(),
        image_gc_high_percent: 100,
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let result = runtime.block_on(async move {
        let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
        copepod_supervisor::spawn("signal", async move {
            term.recv().await;
            stop.cancel();
        });
        copepod_kubelet::run(config, shutdown).await
    });
    if let Err(error) = result {
        println!("kubelet: {error}");
        std::process::exit(1);
    }
}

/// The node.
pub struct Bench {
    pub node: Node,
    crictl: PathBuf,
}

impl Bench {
    /// A node with containerd running and the images `busybox:1` and pause in it.
    pub fn start() -> Result<Self, Failed> {
        let mut node = Node::builder().keep_root(std::env::var("KEEP").is_ok()).start()?;
        let runc = upstream("runc")?;
        write(&node, "/etc/containerd/config.toml", &containerd_config(&runc))?;
        write(&node, "/etc/resolv.conf", "nameserver 192.0.2.53\n")?;
        std::fs::create_dir_all(node.host_path(MANIFESTS))?;
        let containerd = upstream("containerd")?;
        let bin = containerd.parent().unwrap().display().to_string();
        let service = Service::new("containerd", &containerd)
            .args(["--config", "/etc/containerd/config.toml"])
            .env("PATH", format!("{bin}:/usr/sbin:/usr/bin:/sbin:/bin"))
            .restart(true);
        node.start_service(service)?;
        let bench = Self { node, crictl: upstream("crictl")? };
        bench.eventually("containerd answers", || bench.crictl(&["version"]).is_ok())?;
        bench.import("busybox:1", &[])?;
        bench.import("registry.k8s.io/pause:3.10.2", &["/bin/busybox", "sleep", "2147483647"])?;
        Ok(bench)
    }

    fn import(&self, name: &str, entrypoint: &[&str]) -> Result<(), Failed> {
        let tools = [
            "sh", "sleep", "echo", "cat", "true", "false", "ls", "id", "hostname", "httpd", "wget", "touch",
            "kill",
        ];
        let mut entries =
            vec![("/bin/busybox".to_owned(), Entry::File { from: "/usr/bin/busybox".into(), mode: 0o755 })];
        entries.extend(tools.map(|t| (format!("/bin/{t}"), Entry::Link { target: "busybox".to_owned() })));
        entries.push(("/tmp".to_owned(), Entry::Directory { mode: 0o1777 }));
        let recipe = Recipe {
            name: if name.contains('/') { name.to_owned() } else { format!("docker.io/library/{name}") },
            architecture: if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }.to_owned(),
            entries,
            entrypoint: entrypoint.iter().map(|e| (*e).to_owned()).collect(),
            environment: vec!["PATH=/bin".to_owned()],
            ..Recipe::default()
        };
        let file = self.node.host_path("/var/lib/image.tar");
        recipe.build(&file)?;
        let ctr = upstream("ctr")?.display().to_string();
        self.sh(&format!("{ctr} -n k8s.io images import /var/lib/image.tar"))?;
        Ok(())
    }

    /// Starts (or replaces) the kubelet.
    pub fn start_kubelet(&mut self, env: &[(&str, &str)]) -> Result<(), Failed> {
        let program = std::env::current_exe()?;
        let mut service = Service::new("kubelet", program).args([KUBELET]);
        for (key, value) in env {
            service = service.env(*key, *value);
        }
        self.node.start_service(service)?;
        self.eventually("healthz answers", || {
            self.sh("/usr/bin/busybox wget -q -O - http://127.0.0.1:10248/healthz").is_ok_and(|t| t == "ok")
        })
    }

    /// Runs a shell line on the node.
    pub fn sh(&self, script: &str) -> Result<String, Failed> {
        let output = self.node.exec(&["/bin/sh", "-ec", script])?;
        if !output.status.success() {
            return Err(format!("{script}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Runs crictl on the node.
    pub fn crictl(&self, args: &[&str]) -> Result<String, Failed> {
        self.sh(&format!("{} -r unix://{SOCKET} {}", self.crictl.display(), args.join(" ")))
    }

    /// Ids of running containers called `name`.
    pub fn running(&self, name: &str) -> Vec<String> {
        let found = self.crictl(&["ps", "-q", "--name", &format!("^{name}$")]).unwrap_or_default();
        found.lines().map(str::to_owned).collect()
    }

    /// The kubelet's log.
    pub fn kubelet_log(&self) -> String {
        std::fs::read_to_string(self.node.host_path("/var/log/kubelet.log")).unwrap_or_default()
    }

    /// Writes a manifest in one step.
    pub fn manifest(&self, name: &str, text: &str) -> Result<(), Failed> {
        let hidden = format!("{MANIFESTS}/.{name}");
        write(&self.node, &hidden, text)?;
        std::fs::rename(self.node.host_path(&hidden), self.node.host_path(format!("{MANIFESTS}/{name}")))?;
        Ok(())
    }

    /// Waits up to 20 seconds.
    pub fn eventually(&self, what: &str, condition: impl Fn() -> bool) -> Result<(), Failed> {
        self.within(Duration::from_secs(20), what, condition)
    }

    /// Waits up to `limit`; quotes the end of the kubelet's log on failure.
    pub fn within(&self, limit: Duration, what: &str, condition: impl Fn() -> bool) -> Result<(), Failed> {
        #[allow(clippy::disallowed_methods, reason = "a test measures real time")]
        let started = Instant::now();
        while started.elapsed() < limit {
            if condition() {
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        let log = self.kubelet_log();
        let tail: Vec<_> = log.lines().rev().take(40).collect();
        let tail: Vec<_> = tail.into_iter().rev().collect();
        Err(format!("not within {limit:?}: {what}\n{}", tail.join("\n")).into())
    }
}

fn write(node: &Node, path: &str, text: &str) -> Result<(), Failed> {
    let path = node.host_path(path);
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(&path, text)?;
    Ok(())
}

fn containerd_config(runc: &Path) -> String {
    format!(
        r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
address = "{SOCKET}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "registry.k8s.io/pause:3.10.2"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
enable_unprivileged_ports = true
enable_unprivileged_icmp = true
disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/opt/cni/bin", "/usr/lib/cni"]
conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{}"
SystemdCgroup = false
"#,
        runc.display()
    )
}
