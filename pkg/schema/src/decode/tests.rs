use copepod_api::GroupVersionKind;
use serde_json::json;

use super::{DecodeError, FieldValidation, decode};
use crate::{builtin, node::SchemaRef};

fn schema(kind: &str) -> SchemaRef<'static> {
    let (group, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
    builtin().kind(group, "v1", kind).expect("built in")
}

fn type_error(kind: &str, body: &str) -> String {
    match decode(body.as_bytes(), schema(kind), FieldValidation::Ignore) {
        Err(DecodeError::Type(text)) => text,
        other => panic!("expected a type error for {body}, got {other:?}"),
    }
}

#[test]
fn unknown_and_duplicate_fields_are_named() {
    let body =
        br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","foo":1,"labels":{"x":"1","x":"2"}},
        "spec":{"containers":[{"name":"c","image":"i","image":"j","bar":{"baz":1}}],"Foo":true}}"#;
    let expected = [
        r#"unknown field "metadata.foo""#,
        r#"duplicate field "metadata.labels.x""#,
        r#"duplicate field "spec.containers[0].image""#,
        r#"unknown field "spec.containers[0].bar""#,
        r#"unknown field "spec.Foo""#,
    ];
    let warned = decode(body, schema("Pod"), FieldValidation::Warn).expect("only warns");
    assert_eq!(warned.warnings, expected);
    assert_eq!(warned.object.pointer("/spec/containers/0/image"), Some(&json!("j")));
    assert_eq!(warned.object.pointer("/spec/Foo"), None);
    let error = decode(body, schema("Pod"), FieldValidation::Strict).expect_err("refused");
    assert_eq!(error.to_string(), format!("strict decoding error: {}", expected.join(", ")));
    assert!(decode(body, schema("Pod"), FieldValidation::Ignore).is_ok_and(|d| d.warnings.is_empty()));
}

#[test]
fn type_errors_read_as_go_writes_them() {
    assert_eq!(
        type_error("Pod", r#"{"metadata":{"labels":"x"}}"#),
        "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string"
    );
    assert_eq!(
        type_error("apps/Deployment", r#"{"spec":{"replicas":"3"}}"#),
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
    );
    assert_eq!(
        type_error("Pod", r#"{"spec":{"containers":{}}}"#),
        "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"
    );
    assert_eq!(
        type_error("Pod", r#"{"spec":{"priority":3000000000}}"#),
        "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32"
    );
    assert_eq!(
        type_error("Pod", r#"{"spec":{"hostNetwork":1}}"#),
        "json: cannot unmarshal number into Go struct field PodSpec.spec.hostNetwork of type bool"
    );
    assert_eq!(
        type_error("ConfigMap", r#"{"data":{"a":1}}"#),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    );
    assert_eq!(type_error("Pod", "[]"), "json: cannot unmarshal array into Go value of type v1.Pod");
}

#[test]
fn syntax_errors_win_and_read_as_go_writes_them() {
    let text = |body: &str| match decode(body.as_bytes(), schema("Pod"), FieldValidation::Warn) {
        Err(DecodeError::Syntax(text)) => text,
        other => panic!("expected a syntax error, got {other:?}"),
    };
    assert_eq!(text(r#"{"spec":1"#), "unexpected end of JSON input");
    assert_eq!(text(r#"{"spec":{}} x"#), "invalid character 'x' after top-level value");
    assert_eq!(text("nope"), "invalid character 'o' in literal null (expecting 'u')");
}

#[test]
fn the_status_names_the_kind() {
    let error = DecodeError::Strict(vec![r#"unknown field "spec.foo""#.to_owned()]);
    let status = error.to_api_error(&GroupVersionKind::new("apps", "v1", "Deployment"));
    assert!(status.to_string().contains(
        r#"Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: unknown field "spec.foo""#
    ));
}

#[test]
fn canonical_form_follows_the_struct_tags() {
    let body = br#"{"metadata":{"name":"a","labels":{},"creationTimestamp":null,"generation":0},
        "spec":{"containers":[{"name":"c","command":[],"stdin":false,"resources":{"limits":{"cpu":1.50}}}],
        "terminationGracePeriodSeconds":0,"volumes":[{"name":"v","emptyDir":{}}]}}"#;
    let pod = decode(body, schema("Pod"), FieldValidation::Strict).expect("valid").object;
    assert_eq!(
        pod,
        json!({
            "metadata": {"name": "a"},
            "spec": {
                "containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m"}}}],
                "terminationGracePeriodSeconds": 0,
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
            "status": {},
        })
    );
    let role = decode(b"{}", schema("rbac.authorization.k8s.io/ClusterRole"), FieldValidation::Strict)
        .expect("valid");
    assert_eq!(role.object, json!({"metadata": {}, "rules": null}));
}
