use super::*;
use copepod_config::{Layout, NodeConfig};

fn node(root: &Path) -> Node {
    let config = NodeConfig {
        node_name: "n1".to_owned(),
        node_ips: vec!["192.168.9.2".parse().unwrap()],
        ..NodeConfig::default()
    };
    Node::resolve(Layout::new(root), config, Path::new("/bundle")).unwrap()
}

#[test]
fn four_pods_in_kubeadms_form() {
    let rendered = render(&node(Path::new("/"))).unwrap();
    let names: Vec<&str> = rendered.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(
        names,
        ["etcd.yaml", "kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml"]
    );
    for (name, text) in &rendered {
        let pod: Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(pod["metadata"]["namespace"], "kube-system", "{name}");
        assert_eq!(pod["spec"]["hostNetwork"], true, "{name}");
        assert!(pod["spec"]["containers"][0]["command"].as_array().unwrap().len() > 4, "{name}");
        assert!(is_ours(Path::new(name)));
    }
    assert!(rendered[1].1.contains("--service-cluster-ip-range=10.96.0.0/12"));
}

#[test]
fn an_owners_edit_stays_until_our_rendering_changes() {
    let root = tempfile::tempdir().unwrap();
    let node = node(root.path());
    assert_eq!(ensure(&node).unwrap().len(), 4);
    assert!(ensure(&node).unwrap().is_empty(), "nothing changed");
    let path = node.layout.manifests().join("kube-scheduler.yaml");
    std::fs::write(&path, "# mine\n").unwrap();
    assert!(ensure(&node).unwrap().is_empty());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\n");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(ensure(&node).unwrap(), [path]);
    let mut changed = node;
    changed.config.api_port = 7443;
    assert_eq!(ensure(&changed).unwrap().len(), 1, "only the API server's manifest holds the port");
}
