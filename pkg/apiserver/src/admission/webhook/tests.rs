use copepod_api::{GroupVersionKind, GroupVersionResource};
use copepod_registry::{Operation, UserInfo, Warnings};
use serde_json::json;

use super::*;

fn attributes<'a>(
    kind: &'a GroupVersionKind,
    resource: &'a GroupVersionResource,
    user: &'a UserInfo,
    warnings: &'a Warnings,
    options: &'a Value,
) -> Attributes<'a> {
    Attributes {
        operation: Operation::Create,
        kind,
        resource,
        subresource: "",
        namespace: "ns",
        name: "p",
        old: None,
        user,
        dry_run: false,
        options,
        warnings,
        reinvocation: None,
    }
}

fn hook() -> Hook {
    let configuration = json!({"metadata": {"name": "c"}, "webhooks": [{
        "name": "a.b.c", "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v2", "v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods", "pods/*"], "scope": "*"}],
    }]});
    hook::of(&configuration).remove(0)
}

#[test]
fn rules_name_operations_groups_and_subresources() {
    let (kind, user) = (GroupVersionKind::new("", "v1", "Pod"), UserInfo::default());
    let (warnings, options) = (Warnings::default(), json!({}));
    let (pods, services) =
        (GroupVersionResource::new("", "v1", "pods"), GroupVersionResource::new("", "v1", "services"));
    let hook = hook();
    let rule = &hook.rules[0];
    let create = attributes(&kind, &pods, &user, &warnings, &options);
    assert!(rule.matches(&create, &pods) && !rule.matches(&create, &services));
    assert!(rule.matches(&Attributes { subresource: "binding", ..create }, &pods));
    assert!(!rule.matches(&Attributes { operation: Operation::Delete, ..create }, &pods));
    let cluster = Rule::read(
        &json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "scope": "Cluster"}),
    );
    assert!(!cluster.matches(&create, &pods));
    assert!(cluster.matches(&Attributes { namespace: "", ..create }, &pods));
}

#[test]
fn questions_and_answers() {
    let (kind, user) =
        (GroupVersionKind::new("", "v1", "Pod"), UserInfo { name: "me".into(), ..UserInfo::default() });
    let (warnings, options) = (Warnings::default(), json!({"kind": "CreateOptions"}));
    let pods = GroupVersionResource::new("", "v1", "pods");
    let create = attributes(&kind, &pods, &user, &warnings, &options);
    let invocation = Invocation { resource: pods.clone(), kind: kind.clone() };
    let views = Views { object: json!({"kind": "Pod"}), old: Value::Null };
    let (uid, review) = review::request(&hook(), &create, &invocation, &kind, &views).unwrap();
    assert_eq!(review["apiVersion"], "admission.k8s.io/v1");
    let request = &review["request"];
    assert_eq!((&request["uid"], &request["operation"]), (&json!(uid), &json!("CREATE")));
    assert_eq!((&request["userInfo"]["username"], &request["oldObject"]), (&json!("me"), &Value::Null));
    assert_eq!(request["requestResource"], json!({"group": "", "version": "v1", "resource": "pods"}));

    let answer = |response: Value| json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
    let read = |mutating, response: Value| review::read("v1", &uid, mutating, &answer(response));
    assert!(read(false, json!({"uid": uid, "allowed": true})).unwrap().allowed);
    let wrong = read(false, json!({"uid": "x", "allowed": true})).unwrap_err();
    assert_eq!(wrong, format!("expected response.uid=\"{uid}\", got \"x\""));
    let patch = read(false, json!({"uid": uid, "patch": "W10="})).unwrap_err();
    assert_eq!(patch, "validating webhook may not return response.patch");
    let kind = read(true, json!({"uid": uid, "patch": "W10="})).unwrap_err();
    assert_eq!(kind, "webhook returned response.patch but not response.patchType");
    let other = review::read("v1", &uid, true, &json!({"kind": "X", "response": {"uid": uid}})).unwrap_err();
    assert_eq!(
        other,
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=X"
    );
    assert!(review::read("v1beta1", &uid, true, &json!({"response": {"allowed": true}})).unwrap().allowed);
}

#[test]
fn refusals_in_words() {
    let status = |value: Value| serde_json::from_value(value).ok();
    let error = review::refusal("h", None);
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (400, "admission webhook \"h\" denied the request without explanation")
    );
    let error = review::refusal("h", status(json!({"message": "no", "code": 403, "reason": "Forbidden"})));
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (403, "admission webhook \"h\" denied the request: no")
    );
    let error = review::refusal("h", status(json!({"reason": "Because", "code": 200, "status": "Success"})));
    assert_eq!((error.code(), error.status().status.as_str()), (400, "Failure"));
    assert_eq!(error.to_string(), "admission webhook \"h\" denied the request: Because");
}
