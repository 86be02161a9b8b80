//! Claims in all their states.

use copepod_client::Patch;

use super::*;

fn claim(extra: Value) -> Claim {
    let mut body = json!({
        "metadata": {"name": "c", "namespace": "ns", "uid": "cu", "resourceVersion": "3"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    copepod_client::apply_merge(&mut body, &extra);
    serde_json::from_value(body).unwrap()
}

fn volume(name: &str, size: &str, extra: Value) -> Arc<PersistentVolume> {
    let mut body = json!({
        "metadata": {"name": name, "resourceVersion": "5"},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}},
        "status": {"phase": "Available"},
    });
    copepod_client::apply_merge(&mut body, &extra);
    Arc::new(serde_json::from_value(body).unwrap())
}

fn class(name: &str, mode: &str, provisioner: &str, default: bool) -> Arc<StorageClass> {
    let mark = json!({"storageclass.kubernetes.io/is-default-class": default.to_string()});
    let body = json!({
        "metadata": {"name": name, "annotations": mark}, "provisioner": provisioner, "volumeBindingMode": mode});
    Arc::new(serde_json::from_value(body).unwrap())
}

fn patches(plan: &Plan) -> Vec<(String, &'static str, Value)> {
    let one = |step: &Step| match step {
        Step::Patch { key, subresource, patch: Patch::Merge(body), .. } => {
            (key.name.clone(), *subresource, body.clone())
        }
        other => panic!("a merge patch: {other:?}"),
    };
    plan.steps.iter().map(one).collect()
}

fn told(plan: &Plan) -> Vec<(&'static str, &str)> {
    plan.events.iter().map(|(_, _, reason, message)| (*reason, message.as_str())).collect()
}

#[test]
fn the_smallest_free_volume_is_bound_volume_first() {
    let world = World {
        volumes: vec![
            volume("large", "10Gi", json!({})),
            volume("small", "2Gi", json!({})),
            volume("tiny", "1Mi", json!({})),
            volume("taken", "1Gi", json!({"spec": {"claimRef": {"name": "x", "namespace": "ns"}}})),
            volume("classy", "1Gi", json!({"spec": {"storageClassName": "gold"}})),
        ],
        ..World::default()
    };
    let plan = plan(&claim(json!({})), &world);
    let steps = patches(&plan);
    let order: Vec<_> = steps.iter().map(|(name, part, _)| (name.as_str(), *part)).collect();
    assert_eq!(order, [("small", ""), ("small", "status"), ("c", ""), ("c", "status")]);
    assert_eq!(steps[0].2["spec"]["claimRef"]["uid"], "cu");
    assert_eq!(steps[0].2["metadata"]["resourceVersion"], "5", "only the volume that was seen");
    assert_eq!(steps[0].2["metadata"]["annotations"][BOUND_BY_CONTROLLER], "yes");
    assert_eq!(steps[2].2["spec"]["volumeName"], "small");
    assert_eq!(
        steps[3].2["status"],
        json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}})
    );
    assert!(told(&plan).is_empty());
}

#[test]
fn what_is_bound_is_left_in_peace() {
    let mine = json!({"spec": {"claimRef": {"name": "c", "namespace": "ns", "uid": "cu"}}, "status": {"phase": "Bound"}});
    let world = World { volumes: vec![volume("v", "1Gi", mine)], ..World::default() };
    let bound = claim(json!({
        "metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": "v"},
        "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}}));
    assert!(plan(&bound, &world).steps.is_empty());
    let lost = plan(&bound, &World::default());
    assert_eq!(
        told(&lost),
        [("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")]
    );
    assert_eq!(
        patches(&lost)[0].2["status"],
        json!({"phase": "Lost", "accessModes": null, "capacity": null})
    );
}

#[test]
fn a_volume_asked_for_by_name_must_fit() {
    let world = World { volumes: vec![volume("v", "1Mi", json!({}))], ..World::default() };
    let asks = claim(json!({"spec": {"volumeName": "v"}}));
    let text = "Cannot bind to requested volume \"v\": requested PV is too small";
    assert_eq!(told(&plan(&asks, &world)), [("VolumeMismatch", text)]);
    let meant = json!({"spec": {"claimRef": {"name": "c", "namespace": "ns"}}});
    let world = World { volumes: vec![volume("v", "1Gi", meant)], ..World::default() };
    let steps = plan(&asks, &world);
    let first = &patches(&steps)[0].2;
    assert_eq!(first["spec"]["claimRef"]["uid"], "cu");
    assert_eq!(first["metadata"].get("annotations"), None, "bound by the user, not by us");
}

#[test]
fn without_a_volume_somebody_is_asked_or_told() {
    let plain = plan(&claim(json!({})), &World::default());
    assert_eq!(
        told(&plain),
        [("FailedBinding", "no persistent volumes available for this claim and no storage class is set")]
    );
    let classes =
        vec![class("a", "Immediate", "x.example.com", false), class("b", "WaitForFirstConsumer", "y", true)];
    let world = World { classes, ..World::default() };
    assert_eq!(patches(&plan(&claim(json!({})), &world))[0].2["spec"], json!({"storageClassName": "b"}));
    let immediate = plan(&claim(json!({"spec": {"storageClassName": "a"}})), &world);
    assert_eq!(told(&immediate)[0].0, "ExternalProvisioning");
    assert_eq!(patches(&immediate)[0].2["metadata"]["annotations"][PROVISIONERS[0]], "x.example.com");
    let mut world = world;
    let late = claim(json!({"spec": {"storageClassName": "b"}}));
    assert_eq!(told(&plan(&late, &world))[0].0, "WaitForFirstConsumer");
    world.waiting.push("p".to_owned());
    assert_eq!(told(&plan(&late, &world)), [("WaitForPodScheduled", "waiting for pod p to be scheduled")]);
    let unknown = plan(&claim(json!({"spec": {"storageClassName": "no"}})), &world);
    assert_eq!(told(&unknown), [("ProvisioningFailed", "storageclass.storage.k8s.io \"no\" not found")]);
}
