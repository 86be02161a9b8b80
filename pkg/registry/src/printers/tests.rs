//! Tables of whole kinds.

use super::*;

fn def(group: &str, plural: &str) -> ResourceDef {
    ResourceDef { group: group.to_owned(), plural: plural.to_owned(), ..ResourceDef::default() }
}

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

fn line(group: &str, plural: &str, object: &Value) -> String {
    let table = table(&def(group, plural), &[object], now());
    assert_eq!(table.columns.len(), table.rows[0].cells.len(), "{plural}: a cell for each column");
    let cells = table.rows[0].cells.iter().map(|c| c.as_str().map_or_else(|| c.to_string(), str::to_owned));
    cells.collect::<Vec<_>>().join("|")
}

fn pod(status: Value) -> Value {
    json!({"metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "n", "containers": [{"name": "a"}, {"name": "b"}],
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]},
        "status": status})
}

#[test]
fn pods_say_what_holds_them_up() {
    let cases = [
        (json!({"phase": "Pending"}), "0/3|Pending|0"),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 2,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            "0/3|Init:CrashLoopBackOff|2",
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [
                {"name": "i", "state": {"terminated": {"exitCode": 0}}},
                {"name": "s", "state": {"running": {}}}]}),
            "0/3|Init:1/2|0",
        ),
        (
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}},
                    {"name": "s", "started": true, "ready": true, "state": {"running": {}}}],
                "containerStatuses": [{"name": "a", "ready": true, "state": {"running": {}}},
                    {"name": "b", "restartCount": 3, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
                        "lastState": {"terminated": {"finishedAt": "2026-01-01T00:08:00Z"}}}]}),
            "2/3|Running|3 (2m ago)",
        ),
        (
            json!({"phase": "Running", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 1}}}]}),
            "0/3|ExitCode:1|0",
        ),
    ];
    for (status, want) in cases {
        let want = format!("p|{want}|10m|<none>|n|<none>|<none>");
        assert_eq!(line("", "pods", &pod(status.clone())), want, "{status}");
    }
}

#[test]
fn finished_pods_carry_a_row_condition() {
    let done = pod(json!({"phase": "Succeeded"}));
    let table = table(&def("", "pods"), &[&done], now());
    assert_eq!(table.rows[0].conditions[0]["reason"], "Succeeded");
}

#[test]
fn services_and_nodes() {
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"],
        "selector": {"a": "b"}, "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]}});
    assert_eq!(
        line("", "services", &service),
        "s|LoadBalancer|10.0.0.1|<pending>|80:30080/TCP|<unknown>|a=b"
    );
    let node = json!({"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/control-plane": ""}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.37.2",
            "architecture": "amd64", "kernelVersion": "6.1"}, "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}]}});
    assert_eq!(
        line("", "nodes", &node),
        "n|Ready,SchedulingDisabled|control-plane|<unknown>|v1.37.2|1.2.3.4|<none>|<unknown>|6.1 (amd64)|<unknown>"
    );
}

#[test]
fn every_printer_fills_every_column() {
    let empty = json!({"metadata": {"name": "x"}});
    for (group, plural) in [
        ("", "podtemplates"),
        ("", "replicationcontrollers"),
        ("apps", "replicasets"),
        ("apps", "deployments"),
        ("apps", "statefulsets"),
        ("apps", "daemonsets"),
        ("apps", "controllerrevisions"),
        ("batch", "jobs"),
        ("batch", "cronjobs"),
        ("autoscaling", "horizontalpodautoscalers"),
        ("", "endpoints"),
        ("discovery.k8s.io", "endpointslices"),
        ("networking.k8s.io", "ingresses"),
        ("networking.k8s.io", "ingressclasses"),
        ("networking.k8s.io", "networkpolicies"),
        ("networking.k8s.io", "servicecidrs"),
        ("", "events"),
        ("", "namespaces"),
        ("", "secrets"),
        ("", "configmaps"),
        ("", "componentstatuses"),
        ("", "resourcequotas"),
        ("coordination.k8s.io", "leases"),
        ("coordination.k8s.io", "leasecandidates"),
        ("scheduling.k8s.io", "priorityclasses"),
        ("node.k8s.io", "runtimeclasses"),
        ("apiregistration.k8s.io", "apiservices"),
        ("storagemigration.k8s.io", "storageversionmigrations"),
        ("", "persistentvolumes"),
        ("", "persistentvolumeclaims"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "volumeattachments"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "csidrivers"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourceslices"),
        ("resource.k8s.io", "devicetaintrules"),
        ("policy", "poddisruptionbudgets"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("certificates.k8s.io", "certificatesigningrequests"),
        ("certificates.k8s.io", "podcertificaterequests"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("rbac.authorization.k8s.io", "roles"),
    ] {
        assert!(line(group, plural, &empty).contains('x'), "{group}/{plural}");
    }
}

#[test]
fn custom_resources_show_their_columns() {
    let mut def = def("example.com", "things");
    def.custom = true;
    def.columns = vec![copepod_api::resource::PrinterColumn {
        name: "Size".to_owned(),
        type_: "integer".to_owned(),
        json_path: ".spec.size".to_owned(),
        ..Default::default()
    }];
    let object = json!({"metadata": {"name": "t"}, "spec": {"size": 3}});
    assert_eq!(table(&def, &[&object], now()).rows[0].cells, [json!("t"), json!(3)]);
    def.columns.clear();
    let table = table(&def, &[&object], now());
    assert_eq!(table.columns[1].name, "Age");
    assert_eq!(table.rows[0].cells[1], Value::Null);
}

/// A cell without seconds since, which pass between an answer and the reading of the clock.
fn steady(cell: &Value) -> Value {
    let seconds = |t: &str| t.strip_suffix('s').is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    if cell.as_str().is_some_and(seconds) { json!("now") } else { cell.clone() }
}

fn compared(case: &Value) -> Option<String> {
    let text = |field: &str| case.get(field).and_then(Value::as_str).unwrap_or_default();
    let now = text("now").parse().unwrap();
    let table = table(&def(text("group"), text("resource")), &[&case["object"]], now);
    let row = &table.rows[0];
    let theirs = case["cells"].as_array().unwrap();
    let ours: Vec<Value> = row.cells.iter().map(steady).collect();
    let theirs: Vec<Value> = theirs.iter().map(steady).collect();
    let conditions = case.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    if ours == theirs && conditions == row.conditions {
        return None;
    }
    let show = |cells: &[Value], conditions: &[Value]| json!([cells, conditions]).to_string();
    let (ours, theirs) = (show(&ours, &row.conditions), show(&theirs, &conditions));
    Some(format!("{} {}:\n  ours   {ours}\n  theirs {theirs}", text("resource"), text("name")))
}

#[test]
fn tables_are_upstreams() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/registry/kinds/tables/upstream.json");
    let recorded: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for (kind, theirs) in recorded["columns"].as_object().unwrap() {
        let (group, plural) = kind.rsplit_once('/').unwrap_or(("", kind));
        let table = table(&def(group, plural), &[], now());
        let ours: Vec<Value> =
            table.columns.iter().map(|c| json!([c.name, c.type_, c.format, c.priority])).collect();
        if theirs.as_array() != Some(&ours) {
            wrong.push(format!("{kind}:\n  ours   {}\n  theirs {theirs}", Value::from(ours)));
        }
    }
    wrong.extend(recorded["objects"].as_array().unwrap().iter().filter_map(compared));
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
