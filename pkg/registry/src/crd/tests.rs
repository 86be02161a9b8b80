use jiff::Timestamp;
use serde_json::json;

use super::{names, rows};

fn definition(name: &str, kind: &str) -> serde_json::Value {
    json!({
        "metadata": {"name": format!("{name}.example.com"), "generation": 1},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": name, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"), "shortNames": ["w"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
                 "selectableFields": [{"jsonPath": ".spec.color"}],
                 "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}, "n": {"type": "integer"}}}}}}},
                {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
                {"name": "v0", "served": false, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
            ],
        },
    })
}

#[test]
fn names_are_accepted_once() {
    let first = definition("widgets", "Widget");
    let first = names::plan(&first, std::slice::from_ref(&first), Timestamp::UNIX_EPOCH).unwrap();
    assert!(names::established(&first));
    assert_eq!(first["status"]["acceptedNames"]["shortNames"], json!(["w"]));
    assert_eq!(names::plan(&first, std::slice::from_ref(&first), Timestamp::UNIX_EPOCH), None);
    let second = definition("gadgets", "Widget");
    let second = names::plan(&second, &[first, second.clone()], Timestamp::UNIX_EPOCH).unwrap();
    assert!(!names::established(&second));
    let conditions = second["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions[0]["type"], "NamesAccepted");
    assert_eq!(conditions[0]["status"], "False");
    assert_eq!(conditions[1]["reason"], "NotAccepted");
}

#[test]
fn every_served_version_is_a_row() {
    let rows = rows::of(&definition("widgets", "Widget"), None);
    let versions: Vec<&str> = rows.iter().map(|row| row.def.version.as_str()).collect();
    assert_eq!(versions, ["v1", "v2"]);
    let def = &rows[0].def;
    assert_eq!(def.key(Some("ns"), "a"), "/registry/example.com/widgets/ns/a");
    assert!(def.subresource("status").is_some() && def.subresource("scale").is_some());
    assert_eq!(def.selectable_fields, [("spec.color".to_owned(), ".spec.color".to_owned())]);
    assert!(!rows[1].served_as_stored());
    let schemas: Vec<&str> = rows.iter().map(|row| row.def.schema.as_str()).collect();
    assert_eq!(schemas, ["com.example.v1.Widget", "com.example.v2.Widget"], "as OpenAPI names them");
}
