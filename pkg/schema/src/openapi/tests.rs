use copepod_api::{ResourceDef, Scope, Verb, Verbs};
use serde_json::{Value, json};

use super::{Custom, Document, Sources, custom::model_name, digest, index, path, v2, v3};
use crate::resources;

fn widget() -> ResourceDef {
    ResourceDef {
        group: "stable.example.com".into(),
        version: "v1".into(),
        kind: "Widget".into(),
        list_kind: "WidgetList".into(),
        plural: "widgets".into(),
        scope: Scope::Namespaced,
        verbs: Verbs(vec![Verb::Create, Verb::Get, Verb::List, Verb::Patch]),
        schema: model_name("stable.example.com", "v1", "Widget"),
        custom: true,
        ..ResourceDef::default()
    }
}

fn tree(document: &Document) -> Value {
    serde_json::from_str(&document.to_string()).expect("JSON")
}

#[test]
fn apps_has_deployments_and_everything_they_refer_to() {
    let rows = resources();
    let rows: Vec<&ResourceDef> = rows.iter().filter(|row| row.group == "apps").collect();
    let document = tree(&v3(&Sources { rows: &rows, custom: &[], version: "v1.37.2" }));
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object).expect("there");
    for (name, schema) in schemas {
        for reference in schema.to_string().split("#/components/schemas/").skip(1) {
            let target = reference.split('"').next().unwrap_or_default();
            assert!(schemas.contains_key(target), "{name} refers to {target}");
        }
    }
    let patch = document
        .pointer("/paths/~1apis~1apps~1v1~1namespaces~1{namespace}~1deployments~1{name}/patch")
        .expect("served");
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    assert!(
        patch["parameters"]
            .as_array()
            .is_some_and(|list| list.iter().any(|p| p["name"] == "fieldValidation"))
    );
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
}

#[test]
fn custom_resources_are_published() {
    let schema = json!({"type": "object", "description": "A widget.", "properties": {
        "spec": {"type": "object", "properties": {"n": {"type": "integer", "nullable": true}},
            "required": ["n"], "anyOf": [{"required": ["n"]}]}}});
    let row = widget();
    let custom = [Custom { row: &row, schema: Some(&schema) }];
    let sources = Sources { rows: &[], custom: &custom, version: "v1.37.2" };
    let definition = &tree(&v2(&sources))["definitions"]["com.example.stable.v1.Widget"];
    assert_eq!(definition["description"], "A widget.");
    assert_eq!(
        definition["properties"]["metadata"]["$ref"],
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    assert_eq!(definition["properties"]["spec"], json!({"type": "object", "properties": {"n": {}}}));
    assert_eq!(definition["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    let document = tree(&v3(&sources));
    assert_eq!(
        document["components"]["schemas"]["com.example.stable.v1.Widget"]["properties"]["spec"],
        schema["properties"]["spec"]
    );
    assert!(
        document["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
            .is_object()
    );
    assert!(document["paths"]["/apis/stable.example.com/v1/widgets"]["get"].is_object());
    let other = json!({"type": "object"});
    let changed = [Custom { row: &row, schema: Some(&other) }];
    assert_ne!(digest(&sources), digest(&Sources { custom: &changed, ..sources }));
}

#[test]
fn the_index_names_documents_by_hash() {
    assert_eq!(path("", "v1"), "api/v1");
    let index = index([(path("apps", "v1"), "AB".to_owned())]);
    assert_eq!(
        index,
        json!({"paths": {"apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=AB"}}})
    );
}
