//! What upstream says to bodies that are nearly right.

use copepod_registry::{FieldValidation, Patch, PatchKind, RequestContext, Target};
use serde_json::{Value, json};

use crate::rig::{create, cx, rig};

#[tokio::test(flavor = "multi_thread")]
async fn an_applied_key_given_twice_is_named_by_its_line() {
    let rig = rig().await;
    let store = rig.core("configmaps");
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: one\n  k: two\n";
    let target = Target::new(Some("default"), "a");
    let apply = |field_validation: FieldValidation| {
        let (store, target) = (store.clone(), target.clone());
        let cx = RequestContext { field_manager: "m".to_owned(), field_validation, ..cx() };
        let patch = Patch { kind: PatchKind::Apply, body: body.into(), force: false };
        async move { store.patch(&cx, &target, &patch).await }
    };
    let error = apply(FieldValidation::Strict).await.unwrap_err().to_string();
    let wanted = "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  \
                  line 7: key \"k\" already set in map";
    assert_eq!(error, wanted);
    let made = apply(FieldValidation::Ignore).await.unwrap().object.to_value();
    assert_eq!(made["data"], json!({"k": "two"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_count_kinds_of_services() {
    let rig = rig().await;
    let quota = |name: &str| {
        let hard: Value = json!({"services.nodeports": "1", "services.loadbalancers": "1", name: "1"});
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}})
    };
    let error = create(&rig.core("resourcequotas"), &quota("services.others")).await.unwrap_err().to_string();
    assert_eq!(error.matches("must be a standard resource").count(), 2, "{error}");
    create(&rig.core("resourcequotas"), &quota("services")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_may_have_an_empty_path() {
    let rig = rig().await;
    let store = rig.store("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations");
    let service = json!({"namespace": "n", "name": "s", "path": ""});
    let hook = json!({"name": "a.b.c", "clientConfig": {"service": service}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "rules": []});
    let webhooks = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "w"}, "webhooks": [hook]});
    create(&store, &webhooks).await.unwrap();
}
