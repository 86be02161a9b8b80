use serde_json::json;

use super::*;

fn texts(errors: &FieldErrors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn generated_names_keep_to_the_alphabet_and_the_length() {
    let name = generate_name(&"a".repeat(80));
    assert_eq!(name.len(), 63);
    assert!(name.bytes().skip(58).all(|b| SUFFIX.contains(&b)));
    assert_ne!(generate_name("x-"), generate_name("x-"));
}

#[test]
fn new_metadata() {
    let good = json!({"metadata": {"name": "a", "namespace": "b", "generateName": "a-"}});
    assert_eq!(texts(&validate(&good, true, names::dns1123_subdomain)), Vec::<String>::new());
    let bad = json!({"metadata": {
        "name": "A", "labels": {"-": "ok"}, "annotations": {"a/b/c": ""}, "finalizers": ["orphan", "foregroundDeletion"],
        "ownerReferences": [{"kind": "Event", "apiVersion": "v1", "name": "a", "uid": "u", "controller": true},
                            {"kind": "X", "apiVersion": "a/b/c", "name": "b", "uid": "", "controller": true}],
    }});
    let found = texts(&validate(&bad, true, names::dns1123_subdomain)).join("\n");
    for wanted in [
        "metadata.name: Invalid value: \"A\"",
        "metadata.namespace: Required value",
        "metadata.labels: Invalid value: \"-\"",
        "metadata.annotations: Invalid value: \"a/b/c\"",
        "finalizer orphan and foregroundDeletion cannot be both set",
        "/v1, Kind=Event is disallowed from being an owner",
        "metadata.ownerReferences[1].apiVersion: Invalid value: \"a/b/c\": must be <group>/<version> or <version>",
        "metadata.ownerReferences[1].uid: Required value: must not be empty",
        "in references for Event/a and X/b",
    ] {
        assert!(found.contains(wanted), "{wanted} in {found}");
    }
    let cluster = json!({"metadata": {"name": "a", "namespace": "b"}});
    assert_eq!(
        texts(&validate(&cluster, false, names::dns1123_subdomain)),
        ["metadata.namespace: Forbidden: not allowed on this type"]
    );
}

#[test]
fn changed_metadata() {
    let old = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "deletionTimestamp": "t", "finalizers": ["a/b"]}});
    assert!(validate_update(&old, &old).is_empty());
    let mut new = old.clone();
    new["metadata"]["uid"] = "v".into();
    new["metadata"]["finalizers"] = json!(["a/b", "c/d"]);
    assert_eq!(
        texts(&validate_update(&new, &old)),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"c/d\"}",
            "metadata.uid: Invalid value: \"v\": field is immutable",
        ]
    );
    keep_identity(&mut new, &old);
    assert_eq!(new["metadata"]["deletionTimestamp"], "t");
}

#[test]
fn namespaces_of_request_and_object() {
    let mut object = json!({"metadata": {"name": "a"}});
    match_namespace(&mut object, Some("x")).unwrap();
    assert_eq!(meta::namespace(&object), "x");
    assert!(match_namespace(&mut object, Some("y")).is_err());
    match_namespace(&mut object, None).unwrap();
    assert_eq!(meta::namespace(&object), "");
}
