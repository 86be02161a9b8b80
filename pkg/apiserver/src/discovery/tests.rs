//! Compared with upstream's own documents, read from the Go module cache where it is present.

use std::path::PathBuf;

use super::*;

fn upstream(file: &str) -> Option<Value> {
    let home = std::env::var_os("HOME")?;
    let dir = PathBuf::from(home).join("go/pkg/mod/k8s.io/kubernetes@v1.37.2/api/discovery");
    serde_json::from_slice(&std::fs::read(dir.join(file)).ok()?).ok()
}

fn ours() -> Discovery {
    let rows: Vec<Arc<ResourceDef>> = copepod_schema::resources().into_iter().map(Arc::new).collect();
    Discovery::build(&rows, &Remotes::new())
}

fn sorted_by(key: &str, list: &Value) -> Vec<Value> {
    let mut list = list.as_array().cloned().unwrap_or_default();
    list.sort_by_key(|v| v[key].as_str().map(str::to_owned));
    list
}

#[test]
fn legacy_documents_equal_upstreams() {
    let ours = ours();
    let mut compared = 0;
    for (path, document) in &ours.documents {
        let file = format!("{}.json", path.trim_start_matches('/').replace('/', "__"));
        if path == "/apis" {
            continue;
        }
        let Some(upstream) = upstream(&file) else { continue };
        let document: Value = serde_json::from_slice(document).unwrap();
        if document["kind"] == "APIResourceList" {
            assert_eq!(
                sorted_by("name", &document["resources"]),
                sorted_by("name", &upstream["resources"]),
                "{path}"
            );
            compared += 1;
        }
    }
    assert!(compared >= 19 || upstream("api.json").is_none(), "only {compared} documents compared");
}

#[test]
fn aggregated_documents_equal_upstreams() {
    let Some(upstream) = upstream("aggregated_v2.json") else { return };
    let ours = ours();
    let (bytes, tag) = ours.aggregated("/apis").unwrap();
    assert_eq!(tag.len(), 128);
    let document: Value = serde_json::from_slice(bytes).unwrap();
    for group in document["items"].as_array().unwrap() {
        let name = &group["metadata"]["name"];
        let theirs =
            upstream["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == *name).unwrap();
        for version in group["versions"].as_array().unwrap() {
            let same = |v: &&Value| v["version"] == version["version"];
            let theirs = theirs["versions"].as_array().unwrap().iter().find(same).unwrap();
            assert_eq!(
                sorted_by("resource", &version["resources"]),
                sorted_by("resource", &theirs["resources"]),
                "{name} {}",
                version["version"]
            );
        }
    }
}

#[test]
fn versions_are_ranked() {
    let mut versions = vec!["v1alpha1", "v2", "v1beta2", "v1", "v11beta1", "foo"];
    versions.sort_by_key(|v| std::cmp::Reverse(version_rank(v)));
    assert_eq!(versions, ["v2", "v1", "v11beta1", "v1beta2", "v1alpha1", "foo"]);
}
