//! What is special to some kinds: Services, pods, namespaces, events, scale, eviction.

use copepod_api::{Reason, meta};
use copepod_registry::{DeleteOptions, Deleted, ListOptions, Store, Target};
use serde_json::{Value, json};

use crate::rig::{create, cx, delete, get, json_body, patch, rig, update};

fn service(name: &str, spec: Value) -> Value {
    json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test(flavor = "multi_thread")]
async fn services_get_addresses_and_ports() {
    let rig = rig().await;
    let (store, addresses) = (rig.core("services"), rig.store("networking.k8s.io", "v1", "ipaddresses"));
    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    let made =
        create(&store, &service("a", json!({"type": "NodePort", "selector": {"a": "b"}, "ports": ports})))
            .await
            .unwrap();
    let ip = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(ip.starts_with("10."), "{made}");
    assert_eq!(made["spec"]["clusterIPs"], json!([ip]));
    assert_eq!(
        (&made["spec"]["ipFamilies"], &made["spec"]["ipFamilyPolicy"]),
        (&json!(["IPv4"]), &json!("SingleStack"))
    );
    let port = made["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30000..=32767).contains(&port));
    let address = get(&addresses, &ip).await.unwrap();
    assert_eq!(address["spec"]["parentRef"]["name"], "a");

    let taken = json!({"clusterIP": ip, "ports": ports});
    let error = create(&store, &service("b", taken)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: provided IP is already allocated"
        )
    );
    let taken = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let error = create(&store, &service("b", taken)).await.unwrap_err();
    assert!(error.to_string().contains("provided port is already allocated"), "{error}");
    let outside = json!({"clusterIP": "192.168.0.1", "ports": ports});
    let error = create(&store, &service("b", outside)).await.unwrap_err();
    assert!(error.to_string().contains("the provided network does not match the current range"), "{error}");
    let outside = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]});
    let error = create(&store, &service("b", outside)).await.unwrap_err();
    assert!(error.to_string().contains("The range of valid ports is 30000-32767"), "{error}");

    // What failed has given everything back, and a change keeps what it leaves out.
    let list = addresses.list(&cx(), None, &ListOptions::default()).await.unwrap();
    assert_eq!(list.items.len(), 1);
    let mut changed = made.clone();
    changed["spec"]["ports"] = json!([{"port": 80, "protocol": "TCP"}]);
    changed["spec"].as_object_mut().unwrap().remove("clusterIP");
    changed["spec"].as_object_mut().unwrap().remove("clusterIPs");
    let changed = update(&store, &changed, None).await.unwrap();
    assert_eq!(changed["spec"]["clusterIP"], ip.as_str());
    assert_eq!(changed["spec"]["ports"][0]["nodePort"], port);

    delete(&store, "a", &DeleteOptions::default()).await.unwrap();
    assert!(get(&addresses, &ip).await.unwrap_err().is(Reason::NotFound));
    let free = json!({"clusterIP": ip, "type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    create(&store, &service("b", free)).await.unwrap();
    let headless =
        create(&store, &service("c", json!({"clusterIP": "None", "selector": {"a": "b"}, "ports": ports})))
            .await
            .unwrap();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
}

fn pod(name: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "labels": {"app": "a"}},
           "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

async fn post(store: &Store, name: &str, sub: &str, body: &Value) -> copepod_api::ApiResult<Value> {
    let target = Target::new(Some("default"), name).sub(sub);
    store.create(&cx(), &target, json_body(body)).await.map(|o| o.to_value())
}

async fn bind(store: &Store, name: &str) -> copepod_api::ApiResult<Value> {
    let binding = json!({"kind": "Binding", "apiVersion": "v1", "metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}});
    post(store, name, "binding", &binding).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_bound_and_deleted_gracefully() {
    let rig = rig().await;
    let store = rig.core("pods");
    let made = create(&store, &pod("a")).await.unwrap();
    assert_eq!(made["status"]["phase"], "Pending");
    bind(&store, "a").await.unwrap();
    let bound = get(&store, "a").await.unwrap();
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    let error = bind(&store, "a").await.unwrap_err();
    assert!(error.is(Reason::Conflict) && error.to_string().contains("already assigned to node"), "{error}");
    let on_node = ListOptions { field_selector: "spec.nodeName=n1".to_owned(), ..ListOptions::default() };
    assert_eq!(store.list(&cx(), None, &on_node).await.unwrap().items.len(), 1);

    let Deleted::Object { object, gone } = delete(&store, "a", &DeleteOptions::default()).await.unwrap()
    else {
        panic!()
    };
    let going = object.to_value();
    assert!(!gone);
    assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 30);
    let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    delete(&store, "a", &now).await.unwrap();
    assert!(get(&store, "a").await.unwrap_err().is(Reason::NotFound));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_refuses_an_eviction() {
    let rig = rig().await;
    let (store, budgets) = (rig.core("pods"), rig.store("policy", "v1", "poddisruptionbudgets"));
    create(&store, &pod("a")).await.unwrap();
    bind(&store, "a").await.unwrap();
    let mut running = get(&store, "a").await.unwrap();
    running["status"]["phase"] = "Running".into();
    running["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    update(&store, &running, Some("status")).await.unwrap();
    let budget = json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"name": "b"},
                        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    let mut budget = create(&budgets, &budget).await.unwrap();
    budget["status"] = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1});
    let mut budget = update(&budgets, &budget, Some("status")).await.unwrap();
    let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "a"}});
    let error = post(&store, "a", "eviction", &eviction).await.unwrap_err();
    assert_eq!(error.code(), 429);
    let cause = &error.status().details.as_ref().unwrap().causes[0];
    assert_eq!(
        (cause.reason.as_str(), cause.message.as_str()),
        ("DisruptionBudget", "The disruption budget b needs 1 healthy pods and has 1 currently")
    );
    budget["status"]["disruptionsAllowed"] = 1.into();
    update(&budgets, &budget, Some("status")).await.unwrap();
    post(&store, "a", "eviction", &eviction).await.unwrap();
    let going = get(&store, "a").await.unwrap();
    assert!(meta::deletion_timestamp(&going).is_some());
    assert_eq!(get(&budgets, "b").await.unwrap()["status"]["disruptionsAllowed"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_goes_when_it_is_finalized() {
    let rig = rig().await;
    let store = rig.core("namespaces");
    let made = create(&store, &json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a"}}))
        .await
        .unwrap();
    assert_eq!(
        (&made["spec"]["finalizers"], &made["status"]["phase"]),
        (&json!(["kubernetes"]), &json!("Active"))
    );
    let Deleted::Object { object, gone } = delete(&store, "a", &DeleteOptions::default()).await.unwrap()
    else {
        panic!()
    };
    let mut going = object.to_value();
    assert!(!gone);
    assert_eq!(going["status"]["phase"], "Terminating");
    going["spec"]["finalizers"] = json!([]);
    let target = Target::new(None, "a").sub("finalize");
    store.update(&cx(), &target, json_body(&going)).await.unwrap();
    assert!(get(&store, "a").await.unwrap_err().is(Reason::NotFound));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_have_two_views() {
    let rig = rig().await;
    let (core, new) = (rig.core("events"), rig.store("events.k8s.io", "v1", "events"));
    let event = json!({
        "kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "note": "hello",
    });
    create(&new, &event).await.unwrap();
    let old = get(&core, "e").await.unwrap();
    assert_eq!(
        (&old["apiVersion"], &old["message"], &old["involvedObject"]["name"]),
        (&json!("v1"), &json!("hello"), &json!("p"))
    );
    assert_eq!(get(&new, "e").await.unwrap()["note"], "hello");
    let by = |field: &str| ListOptions { field_selector: field.to_owned(), ..ListOptions::default() };
    assert_eq!(core.list(&cx(), None, &by("involvedObject.name=p")).await.unwrap().items.len(), 1);
    assert_eq!(
        new.list(&cx(), None, &by("regarding.name=p,reportingController=c")).await.unwrap().items.len(),
        1
    );
    assert!(new.list(&cx(), None, &by("involvedObject.name=p")).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn deployments_scale() {
    let rig = rig().await;
    let store = rig.store("apps", "v1", "deployments");
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"},
                            "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
    create(&store, &deployment).await.unwrap();
    let target = Target::new(Some("default"), "d").sub("scale");
    let scale = store.get(&cx(), &target, "").await.unwrap().to_value();
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!(1), &json!("app=a")));
    let body = copepod_registry::Patch {
        kind: copepod_registry::PatchKind::Merge,
        body: json!({"spec": {"replicas": 3}}).to_string().into(),
        force: false,
    };
    store.patch(&cx(), &target, &body).await.unwrap();
    let after = get(&store, "d").await.unwrap();
    assert_eq!((&after["spec"]["replicas"], meta::generation(&after)), (&json!(3), 2));
    let mut negative = scale.clone();
    negative["spec"]["replicas"] = (-1).into();
    negative["metadata"]["resourceVersion"] = "".into();
    let error = store.update(&cx(), &target, json_body(&negative)).await.unwrap_err();
    assert!(error.to_string().contains("must be greater than or equal to 0"), "{error}");
    patch(&store, "d", copepod_registry::PatchKind::Strategic, &json!({"spec": {"paused": true}}))
        .await
        .unwrap();
    assert_eq!(meta::generation(&get(&store, "d").await.unwrap()), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn autoscalers_have_two_versions() {
    let rig = rig().await;
    let (v1, v2) = (
        rig.store("autoscaling", "v1", "horizontalpodautoscalers"),
        rig.store("autoscaling", "v2", "horizontalpodautoscalers"),
    );
    let object = json!({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1", "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}});
    let made = create(&v1, &object).await.unwrap();
    assert_eq!(
        (&made["apiVersion"], &made["spec"]["targetCPUUtilizationPercentage"]),
        (&json!("autoscaling/v1"), &json!(50))
    );
    let seen = get(&v2, "h").await.unwrap();
    assert_eq!(seen["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    let list = v1.list(&cx(), None, &ListOptions::default()).await.unwrap();
    let bytes: Value = serde_json::from_slice(&list.to_bytes()).unwrap();
    assert_eq!(bytes["items"][0]["spec"]["targetCPUUtilizationPercentage"], 50);
}
