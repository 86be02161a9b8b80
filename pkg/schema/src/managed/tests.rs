use copepod_api::{GroupVersionKind, meta};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{FieldSet, OneVersion, PathElement, Request, apply, keep_timestamps, update};
use crate::{builtin, canonical, node::SchemaRef};

const T1: &str = "2030-01-01T00:00:00Z";
const T2: &str = "2030-01-01T00:00:05Z";

struct World {
    gvk: GroupVersionKind,
    none: FieldSet,
}

impl World {
    fn deployments() -> Self {
        Self { gvk: GroupVersionKind::new("apps", "v1", "Deployment"), none: FieldSet::default() }
    }

    fn schema(&self) -> SchemaRef<'static> {
        builtin().kind(&self.gvk.group, &self.gvk.version, &self.gvk.kind).expect("built in")
    }

    fn by<'a>(&'a self, manager: &'a str, now: &'a str) -> Request<'a> {
        Request {
            schema: self.schema(),
            gvk: &self.gvk,
            manager,
            subresource: "",
            reset: &self.none,
            versions: &OneVersion,
            now,
        }
    }
}

fn deployment(replicas: Option<u32>, image: &str) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}});
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = replicas.into();
    }
    object
}

fn canonical(mut object: Value, world: &World) -> Value {
    canonical::canonicalize(&mut object, world.schema());
    object
}

fn owners(object: &Value) -> Vec<(String, String)> {
    let list = object.pointer("/metadata/managedFields").and_then(Value::as_array).expect("tracked");
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    list.iter().map(|entry| (text(entry, "manager"), text(entry, "operation"))).collect()
}

#[test]
fn a_create_is_recorded_as_upstream_records_it() {
    let world = World::deployments();
    let mut object = canonical(deployment(Some(2), "nginx"), &world);
    update(None, &mut object, &world.by("kubectl-create", T1));
    assert_eq!(
        object.pointer("/metadata/managedFields"),
        Some(
            &json!([{"manager": "kubectl-create", "operation": "Update", "apiVersion": "apps/v1", "time": T1,
            "fieldsType": "FieldsV1", "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {"f:replicas": {}, "f:selector": {},
                    "f:template": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                        "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}}}}}}}])
        )
    );
}

#[test]
fn apply_creates_conflicts_and_forces() {
    let world = World::deployments();
    let created = apply(None, &deployment(Some(1), "a"), &world.by("one", T1), false).expect("creates");
    assert_eq!(owners(&created), [("one".to_owned(), "Apply".to_owned())]);
    assert_eq!(created.pointer("/spec/template/spec/containers/0/resources"), Some(&json!({})));
    let refused =
        apply(Some(&created), &deployment(Some(2), "a"), &world.by("two", T2), false).expect_err("owned");
    assert_eq!(refused.code(), 409);
    assert_eq!(
        refused.status().message,
        "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas"
    );
    let cause = &refused.status().details.as_ref().expect("causes").causes[0];
    assert_eq!((cause.reason.as_str(), cause.field.as_str()), ("FieldManagerConflict", ".spec.replicas"));
    let forced =
        apply(Some(&created), &deployment(Some(2), "a"), &world.by("two", T2), true).expect("forced");
    assert_eq!(forced.pointer("/spec/replicas"), Some(&json!(2)));
    assert_eq!(forced.pointer("/metadata/managedFields/0/fieldsV1/f:spec/f:replicas"), None);
    let both =
        apply(Some(&created), &deployment(Some(1), "b"), &world.by("two", T2), false).expect_err("image");
    assert!(both.status().message.ends_with(".spec.template.spec.containers[name=\"c\"].image"), "{both}");
}

#[test]
fn an_update_conflict_names_version_and_manager() {
    let world = World::deployments();
    let mut live = canonical(deployment(Some(1), "a"), &world);
    update(None, &mut live, &world.by("kubectl-client-side-apply", T1));
    let refused =
        apply(Some(&live), &deployment(Some(5), "a"), &world.by("me", T2), false).expect_err("owned");
    assert_eq!(
        refused.status().message,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn what_the_applier_no_longer_sets_goes_unless_others_own_it() {
    let world = World::deployments();
    let mut first = deployment(Some(3), "a");
    first["metadata"]["annotations"] = json!({"mine": "1", "shared": "2"});
    let created = apply(None, &first, &world.by("one", T1), false).expect("creates");
    let mut second = deployment(None, "a");
    second["metadata"]["annotations"] = json!({"shared": "2"});
    let shared = apply(Some(&created), &second, &world.by("two", T1), false).expect("agrees");
    let less = apply(Some(&shared), &deployment(None, "a"), &world.by("one", T2), false).expect("shrinks");
    assert_eq!(less.pointer("/spec/replicas"), None);
    assert_eq!(less.pointer("/metadata/annotations"), Some(&json!({"shared": "2"})));
    let last = apply(Some(&less), &deployment(None, "a"), &world.by("two", T2), false).expect("shrinks");
    assert_eq!(last.pointer("/metadata/annotations"), None);
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let world = World::deployments();
    let mut created = apply(None, &deployment(Some(3), "a"), &world.by("one", T1), false).expect("creates");
    meta::metadata_mut(&mut created).insert("uid".to_owned(), "u".into());
    let again =
        apply(Some(&created), &deployment(Some(3), "a"), &world.by("one", T2), false).expect("applies");
    assert_eq!(again, created);
}

#[test]
fn untracked_objects_get_an_owner_before_the_first_apply() {
    let world = World::deployments();
    let mut live = canonical(deployment(Some(1), "a"), &world);
    meta::metadata_mut(&mut live).insert("uid".to_owned(), "u".into());
    let mut untouched = live.clone();
    update(Some(&live), &mut untouched, &world.by("x", T1));
    assert_eq!(untouched, live);
    let applied = apply(Some(&live), &deployment(Some(1), "a"), &world.by("one", T1), false).expect("agrees");
    let expected =
        [("one", "Apply"), ("before-first-apply", "Update")].map(|(m, o)| (m.to_owned(), o.to_owned()));
    assert_eq!(owners(&applied), expected);
}

#[test]
fn bad_configurations_are_refused() {
    let world = World::deployments();
    let text =
        |config: &Value| apply(None, config, &world.by("one", T1), false).expect_err("refused").to_string();
    let mut unknown = deployment(None, "a");
    unknown["spec"]["foo"] = json!(1);
    assert!(text(&unknown).contains(
        "failed to create typed patch object (/web; apps/v1, Kind=Deployment): .spec.foo: field not declared in schema"
    ));
    let mut twice = deployment(None, "a");
    twice["spec"]["template"]["spec"]["containers"] = json!([{"name": "c"}, {"name": "c"}]);
    assert!(text(&twice).contains("duplicate entries for key [name=\"c\"]"));
    let mut managed = deployment(None, "a");
    managed["metadata"]["managedFields"] = json!([]);
    assert!(text(&managed).contains("metadata.managedFields must be nil"));
    let mut other = deployment(None, "a");
    other["kind"] = json!("Pod");
    assert!(text(&other).contains("invalid object type"));
}

#[test]
fn updaters_are_capped_and_reset() {
    let world = World::deployments();
    let mut object = canonical(deployment(Some(0), "a"), &world);
    update(None, &mut object, &world.by("creator", T1));
    for at in 1..15 {
        let live = object.clone();
        object["metadata"]["annotations"][format!("a{at}")] = json!("x");
        let (manager, now) = (format!("m{at}"), format!("2030-01-01T00:01:{at:02}Z"));
        update(Some(&live), &mut object, &world.by(&manager, &now));
    }
    let names = owners(&object);
    assert_eq!(names.len(), 10);
    assert_eq!(names[0].0, "ancient-changes");
    let live = object.clone();
    object["metadata"]["managedFields"] = json!([{}]);
    update(Some(&live), &mut object, &world.by("x", T2));
    // A reset of a tracked object leaves the acting write alone, which changed nothing here.
    assert_eq!(object.pointer("/metadata/managedFields"), None);
}

#[test]
fn timestamps_of_writes_without_effect_are_kept() {
    let world = World::deployments();
    let mut old = canonical(deployment(Some(1), "a"), &world);
    update(None, &mut old, &world.by("x", T1));
    let mut new = old.clone();
    new["metadata"]["managedFields"][0]["time"] = json!(T2);
    keep_timestamps(&old, &mut new);
    assert_eq!(new, old);
}

fn element() -> impl Strategy<Value = PathElement> {
    let scalar = prop_oneof!["[a-c<]{0,2}".prop_map(Value::from), any::<i16>().prop_map(Value::from)];
    prop_oneof![
        3 => "[a-d.]{1,3}".prop_map(|name| PathElement::field(&name)),
        1 => scalar.clone().prop_map(PathElement::Value),
        1 => scalar.prop_map(|value| PathElement::Key(vec![("name".to_owned(), value)])),
        1 => (0..3_i64).prop_map(PathElement::Index),
    ]
}

fn field_set() -> impl Strategy<Value = FieldSet> {
    proptest::collection::vec(proptest::collection::vec(element(), 1..4), 0..10).prop_map(|paths| {
        let mut set = FieldSet::default();
        paths.iter().for_each(|path| set.insert(path));
        set
    })
}

proptest! {
    #[test]
    fn field_sets_survive_their_encoding(set in field_set()) {
        prop_assert_eq!(FieldSet::parse(&set.serialize()), Ok(set));
    }

    #[test]
    fn field_sets_are_sets(a in field_set(), b in field_set()) {
        let both = a.intersection(&b);
        prop_assert_eq!(a.difference(&b).union(&both), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.union(&b), b.union(&a));
        for path in a.paths() {
            prop_assert!(a.union(&b).has(&path));
            prop_assert_eq!(both.has(&path), b.has(&path));
        }
    }

    #[test]
    fn applying_twice_is_applying_once(labels in proptest::collection::btree_map("[a-c]", "[x-z]", 0..3), replicas in 0..3_u32) {
        let world = World::deployments();
        let live = apply(None, &deployment(Some(1), "a"), &world.by("one", T1), false).expect("creates");
        let mut config = deployment(Some(replicas), "a");
        config["metadata"]["labels"] = json!(labels);
        let once = apply(Some(&live), &config, &world.by("two", T2), true).expect("forced");
        let twice = apply(Some(&once), &config, &world.by("two", T2), false).expect("owned");
        prop_assert_eq!(&once, &twice);
        for (key, value) in &labels {
            prop_assert_eq!(&once["metadata"]["labels"][key], value);
        }
    }
}
