use copepod_api::status::Reason;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{PatchError, PatchType, apply, json, merge, strategic};
use crate::{builtin, decode::FieldValidation, node::SchemaRef};

fn pod() -> SchemaRef<'static> {
    builtin().kind("", "v1", "Pod").expect("built in")
}

fn smp(original: &Value, patch: &Value) -> Value {
    strategic(original, patch, pod()).expect("applies")
}

#[test]
fn containers_merge_by_name_and_keep_their_order() {
    let live = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}});
    let patch = json!({"spec": {"containers": [{"name": "b", "image": "3"}, {"name": "c"}]}});
    assert_eq!(
        smp(&live, &patch),
        json!({"spec": {"containers": [
            {"name": "a", "image": "1"}, {"name": "b", "image": "3"}, {"name": "c"}]}})
    );
}

#[test]
fn directives_act() {
    let live = json!({"metadata": {"finalizers": ["x", "y"]},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "volumes": [{"name": "v", "emptyDir": {}}],
                 "nodeSelector": {"k": "v"}}});
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]},
        "spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                 "containers": [{"name": "a", "image": "i"}],
                 "volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/"}}],
                 "nodeSelector": {"$patch": "replace", "l": "w"}}});
    assert_eq!(
        smp(&live, &patch),
        json!({"metadata": {"finalizers": ["y"]},
            "spec": {"containers": [{"name": "b"}, {"name": "a", "image": "i"}],
                     "volumes": [{"name": "v", "hostPath": {"path": "/"}}], "nodeSelector": {"l": "w"}}})
    );
    let delete = json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}], "volumes": null}});
    assert_eq!(smp(&live, &delete).pointer("/spec/containers"), Some(&json!([{"name": "b"}])));
    assert_eq!(smp(&live, &delete).pointer("/spec/volumes"), None);
}

#[test]
fn bad_patches_are_refused() {
    let live = json!({"spec": {"containers": [{"name": "a"}]}});
    let keyless = strategic(&live, &json!({"spec": {"containers": [{"image": "i"}]}}), pod());
    assert_eq!(
        keyless,
        Err(PatchError::Internal("map: map[image:i] does not contain declared merge key: name".to_owned()))
    );
    let order = json!({"spec": {"$setElementOrder/containers": "x"}});
    assert!(strategic(&live, &order, pod()).is_err());
    let error = apply(PatchType::Merge, &live, b"[]", pod(), FieldValidation::Warn, |_| None)
        .expect_err("not an object");
    assert!(error.is(Reason::BadRequest), "{error}");
    let error =
        apply(PatchType::Merge, &live, br#"{"spec":{"containers":1}}"#, pod(), FieldValidation::Warn, |_| {
            None
        });
    assert_eq!(error.expect_err("wrong type").code(), 422);
    let strict =
        apply(PatchType::Strategic, &live, br#"{"spec":{"foo":1}}"#, pod(), FieldValidation::Strict, |_| {
            None
        });
    assert!(strict.expect_err("unknown").to_string().contains("unknown field \"spec.foo\""));
}

#[test]
fn json_patch_acts_and_fails_as_upstream_does() {
    let mut doc = json!({"a": [1, 2], "b": {"c": 1}});
    let patch = br#"[{"op":"test","path":"/a/0","value":1},{"op":"add","path":"/a/-","value":3},
        {"op":"move","from":"/b/c","path":"/d"},{"op":"copy","from":"/a/-1","path":"/e~1f"},
        {"op":"replace","path":"/new","value":null},{"op":"remove","path":"/a/0"}]"#;
    json(&mut doc, patch).expect("applies");
    assert_eq!(doc, json!({"a": [2, 3], "b": {}, "d": 1, "e/f": 3, "new": null}));
    for (patch, text) in [
        (
            r#"[{"op":"remove","path":"/zzz"}]"#,
            "error in remove for path: '/zzz': Unable to remove nonexistent key: zzz: missing value",
        ),
        (r#"[{"op":"test","path":"/d","value":2}]"#, "testing value /d failed: test failed"),
        (
            r#"[{"op":"add","path":"/x/y","value":2}]"#,
            "add operation does not apply: doc is missing path: \"/x/y\": missing value",
        ),
        (
            r#"[{"op":"add","path":"/a/7","value":2}]"#,
            "error in add for path: '/a/7': Unable to access invalid index: 7: invalid index referenced",
        ),
    ] {
        let before = doc.clone();
        assert_eq!(json(&mut doc, patch.as_bytes()), Err(PatchError::Unprocessable(text.to_owned())));
        assert_eq!(doc, before);
    }
    assert!(matches!(json(&mut doc, b"{}"), Err(PatchError::Malformed(_))));
    let many = format!("[{}]", vec![r#"{"op":"test","path":"/d","value":1}"#; 10_001].join(","));
    assert_eq!(json(&mut doc, many.as_bytes()), Err(PatchError::TooManyOperations(10_001)));
}

/// Trees without nulls, as stored objects are.
fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_merge_patch_is_idempotent(original in tree(), patch in tree()) {
        let mut once = original;
        merge(&mut once, &patch);
        let mut twice = once.clone();
        merge(&mut twice, &patch);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_strategic_patch_without_directives_is_idempotent(
        names in proptest::collection::btree_set("[a-f]", 0..6),
        patched in proptest::collection::btree_map("[a-f]", "[x-z]", 0..6),
    ) {
        let live: Vec<Value> = names.iter().map(|name| json!({"name": name, "image": "old"})).collect();
        let list: Vec<Value> = patched.iter().map(|(name, image)| json!({"name": name, "image": image})).collect();
        let patch = json!({"spec": {"containers": list}});
        let once = smp(&json!({"spec": {"containers": live}}), &patch);
        prop_assert_eq!(&smp(&once, &patch), &once);
        let containers = once.pointer("/spec/containers").and_then(Value::as_array).expect("kept");
        for name in names.iter().chain(patched.keys()) {
            let found: Vec<_> = containers.iter().filter(|c| c["name"] == **name).collect();
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(&found[0]["image"], patched.get(name).map_or("old", String::as_str));
        }
    }
}
