use super::*;
use copepod_volume::{BoxFuture as VolumeFuture, TokenRequest};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

struct Objects;

impl ObjectSource for Objects {
    fn config_map<'a>(
        &'a self,
        _: &'a str,
        name: &'a str,
    ) -> VolumeFuture<'a, Result<ConfigMap, VolumeError>> {
        Box::pin(async move {
            match name {
                "cm" => Ok(serde_json::from_value(json!({"data": {"a": "1", "p-1": "2"}})).unwrap()),
                _ => Err(VolumeError::NotFound("configmap", name.to_owned())),
            }
        })
    }

    fn secret<'a>(&'a self, _: &'a str, name: &'a str) -> VolumeFuture<'a, Result<Secret, VolumeError>> {
        Box::pin(async move { Err(VolumeError::NotFound("secret", name.to_owned())) })
    }

    fn token<'a>(&'a self, _: &'a Pod, _: &'a TokenRequest) -> VolumeFuture<'a, Result<String, VolumeError>> {
        Box::pin(async { Err(VolumeError::Api("no tokens here".to_owned())) })
    }

    fn claim<'a>(&'a self, _: &'a str, _: &'a str) -> VolumeFuture<'a, Result<String, VolumeError>> {
        Box::pin(async { Err(VolumeError::Api("no claims here".to_owned())) })
    }
}

async fn resolve(container: serde_json::Value) -> Result<Variables, String> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": [container]}
    }))
    .unwrap();
    let source = Environment::new(
        Arc::new(Objects),
        None,
        (NodeFacts::default(), PathBuf::new()),
        &CancellationToken::new(),
    );
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let addresses = PodAddresses { pod_ips: vec!["10.244.0.7".to_owned()], host_ips: Vec::new() };
    source.resolve(&pod, container, &addresses).await.map_err(|e| e.to_string())
}

fn pairs(list: &[(&str, &str)]) -> Variables {
    list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[tokio::test]
async fn sources_then_variables_which_may_name_what_came_before() {
    let env = resolve(json!({
        "name": "c",
        "envFrom": [{"prefix": "X_", "configMapRef": {"name": "cm"}}, {"secretRef": {"name": "s", "optional": true}}],
        "env": [
            {"name": "B", "value": "$(X_a)-$(NONE)-$$(X_a)"},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "SKIP", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "z", "optional": true}}},
            {"name": "X_a", "value": "over"},
        ],
    }))
    .await
    .unwrap();
    assert_eq!(
        env,
        pairs(&[("X_a", "over"), ("X_p-1", "2"), ("B", "1-$(NONE)-$(X_a)"), ("IP", "10.244.0.7")])
    );
}

#[tokio::test]
async fn what_is_missing_is_named_as_upstream_names_it() {
    let key = json!({"name": "c", "env": [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "z"}}}]});
    assert_eq!(resolve(key).await.unwrap_err(), "couldn't find key z in ConfigMap d/cm");
    let secret = json!({"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]});
    assert_eq!(resolve(secret).await.unwrap_err(), "secret \"s\" not found");
}
