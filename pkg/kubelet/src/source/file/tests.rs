use super::*;

const GOOD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: c\n    image: busybox:1\n    resources:\n      limits:\n        cpu: 1\n";

#[test]
fn good_manifest_gets_identity_and_defaults() {
    let pod = parse_manifest(Path::new("/m/web.yaml"), GOOD, "node-1").unwrap();
    assert_eq!(pod.name(), "web-node-1");
    assert_eq!(pod.namespace(), "default");
    assert_eq!(pod.uid().len(), 32);
    assert_eq!(pod.annotation(CONFIG_HASH), Some(pod.uid()));
    assert_eq!(pod.spec().restart_policy.as_deref(), Some("Always"));
    assert_eq!(pod.spec().node_name.as_deref(), Some("node-1"));
    let again = parse_manifest(Path::new("/m/web.yaml"), GOOD, "node-1").unwrap();
    assert_eq!(pod.uid(), again.uid());
    let edited = parse_manifest(Path::new("/m/web.yaml"), &GOOD.replace(":1\n", ":2\n"), "node-1").unwrap();
    assert_ne!(pod.uid(), edited.uid());
}

#[test]
fn broken_manifests_are_named_with_line() {
    for (text, line, word) in [
        ("apiVersion: v1\nkind: Pod\nmetadata: [\n", 4, ""),
        ("apiVersion: v1\nkind: Deployment\nmetadata:\n  name: a\n", 2, "Deployment"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers: []\n", 6, "Required"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: A_b\nspec:\n  containers: []\n", 4, "A_b"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: x\n    image: y:1\n    volumeMounts:\n    - name: gone\n      mountPath: /d\n",
            10,
            "gone",
        ),
    ] {
        let error = parse_manifest(Path::new("/m/bad.yaml"), text, "n").unwrap_err();
        let message = error.to_string();
        let ManifestError::Parse { line: found, .. } = error else { panic!("{message}") };
        assert!(message.starts_with(&format!("/m/bad.yaml:{found}: ")), "{message}");
        assert!(message.contains(word), "{message}");
        assert!(found.abs_diff(line) <= 1, "{message}, expected line {line}");
    }
}

#[test]
fn one_bad_file_leaves_the_others() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.yaml"), GOOD).unwrap();
    std::fs::write(dir.path().join("b.yaml"), "kind: [").unwrap();
    std::fs::write(dir.path().join(".swp"), "kind: [").unwrap();
    std::fs::write(dir.path().join("c.yaml"), GOOD).unwrap();
    let (pods, errors) = read_dir(dir.path(), "n");
    assert_eq!(pods.len(), 1);
    assert_eq!(errors.len(), 2, "{errors:?}");
}

#[tokio::test]
async fn edits_and_removals_arrive_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (send, mut receive) = mpsc::channel(8);
    let task = copepod_supervisor::spawn("test source", run(dir.path().to_owned(), "n".to_owned(), send));
    assert!(receive.recv().await.unwrap().pods.is_empty());
    std::fs::write(dir.path().join("a.yaml"), GOOD).unwrap();
    let limit = Duration::from_secs(5);
    while timeout(limit, receive.recv()).await.unwrap().unwrap().pods.len() != 1 {}
    std::fs::remove_file(dir.path().join("a.yaml")).unwrap();
    while !timeout(limit, receive.recv()).await.unwrap().unwrap().pods.is_empty() {}
    task.abort();
}
