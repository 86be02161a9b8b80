//! Our kubelet and our proxy, each a program of its own with upstream's configuration file, under upstream's control
//! plane: a Deployment runs and its Service answers.

use std::net::SocketAddr;
use std::path::PathBuf;

use copepod_e2e::{BUSYBOX, Check, bundle, ensure};
use copepod_image::{Archive, Registry, Serving, mirror_hosts};
use copepod_testkit::{Implementation, LAN_ADDRESS, Node, Oracle, Part, Parts, Side, dispatch};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    dispatch();
    let trials = vec![Trial::test("our_kubelet_and_proxy_serve_upstreams_control_plane", alone)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn alone() -> Check {
    let ours = Implementation::Ours(bundle().join("bin/copepod"));
    let parts = Parts::control_plane().with(Part::Kubelet, ours.clone()).with(Part::Proxy, ours);
    let mut node = Node::builder().name("alone").start()?;
    let mirror = mirror(&node)?;
    let oracle = Oracle::start(&mut node, &parts)?;
    let kubectl = |words: &str| oracle.kubectl(&node, &words.split_whitespace().collect::<Vec<_>>());
    // The controller manager makes it, and no pod is taken before.
    oracle.wait_for(&node, "kube-controller-manager", |_| kubectl("get serviceaccount default").is_ok())?;
    let serve = "mkdir -p /www && echo page > /www/index.html && httpd -f -p 8080 -h /www";
    let image = format!("--image={BUSYBOX}");
    oracle.kubectl(&node, &["create", "deployment", "web", &image, "--", "sh", "-c", serve])?;
    kubectl("expose deployment web --port=80 --target-port=8080")?;
    kubectl("rollout status deployment/web --timeout=90s")?;
    let url = format!("http://{}", kubectl("get service web -o jsonpath={.spec.clusterIP}")?);
    oracle.wait_for(&node, "kube-proxy", |_| {
        let page = node.exec(&["curl", "-sS", "--max-time", "3", &url]);
        page.is_ok_and(|page| page.stdout == b"page\n")
    })?;
    let wide = kubectl("get nodes -o jsonpath={.items[*].status.nodeInfo.kubeletVersion}")?;
    ensure(wide.starts_with("v1.37"), || format!("the node's kubelet is {wide}"))?;
    drop(mirror);
    Ok(node.stop()?)
}

/// The bundle's images, for the node's containerd.
fn mirror(node: &Node) -> Result<Serving, Failed> {
    let images = ["pause", "busybox"].map(|name| bundle().join("images").join(format!("{name}.tar")));
    let open = |registry: Registry, path: &PathBuf| Ok::<_, Failed>(registry.with(Archive::open(path)?));
    let registry = images.iter().try_fold(Registry::default(), open)?;
    let address = SocketAddr::from((LAN_ADDRESS, 5000));
    let hosts = node.host_path(Oracle::mirror_file());
    std::fs::create_dir_all(hosts.parent().unwrap_or(&hosts))?;
    std::fs::write(&hosts, mirror_hosts(address))?;
    Ok(registry.serve(node.listen(Side::Lan, address)?)?)
}
