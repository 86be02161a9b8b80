use super::*;
use crate::source::{BoxFuture, Credential, TokenRequest};
use k8s_openapi::api::core::v1::{ClusterTrustBundleProjection, ConfigMap, PodCertificateProjection, Secret};
use serde_json::json;

struct Objects;

impl ObjectSource for Objects {
    fn config_map<'a>(&'a self, _: &'a str, name: &'a str) -> BoxFuture<'a, Result<ConfigMap, VolumeError>> {
        Box::pin(async move {
            match name {
                "settings" => Ok(serde_json::from_value(json!({"data": {"a": "1"}})).unwrap()),
                _ => Err(VolumeError::NotFound("configmap", name.to_owned())),
            }
        })
    }

    fn secret<'a>(&'a self, _: &'a str, name: &'a str) -> BoxFuture<'a, Result<Secret, VolumeError>> {
        Box::pin(async move { Err(VolumeError::NotFound("secret", name.to_owned())) })
    }

    fn token<'a>(
        &'a self,
        _: &'a Pod,
        request: &'a TokenRequest,
    ) -> BoxFuture<'a, Result<String, VolumeError>> {
        Box::pin(async move { Ok(format!("token for {}", request.audience)) })
    }

    fn claim<'a>(&'a self, _: &'a str, name: &'a str) -> BoxFuture<'a, Result<String, VolumeError>> {
        Box::pin(async move { Err(VolumeError::NotFound("persistentvolumeclaim", name.to_owned())) })
    }

    fn trust_anchors<'a>(
        &'a self,
        _: &'a Pod,
        wanted: &'a ClusterTrustBundleProjection,
    ) -> BoxFuture<'a, Result<String, VolumeError>> {
        Box::pin(async move { Ok(format!("anchors of {}", wanted.name.as_deref().unwrap_or_default())) })
    }

    fn credential<'a>(
        &'a self,
        _: &'a Pod,
        (volume, index): (&'a str, usize),
        wanted: &'a PodCertificateProjection,
    ) -> BoxFuture<'a, Result<Credential, VolumeError>> {
        let chain = format!("chain of {} at {volume}[{index}]", wanted.signer_name);
        Box::pin(async move { Ok(Credential { key: "key,".to_owned(), chain }) })
    }
}

fn volumes_at(root: &Path) -> Volumes {
    Volumes::new(VolumeConfig { root: root.to_owned(), node: NodeFacts::default() }, Arc::new(Objects))
}

fn pod(volumes: serde_json::Value, mounts: serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "d", "uid": "u1"},
        "spec": {"volumes": volumes, "containers": [{"name": "c", "volumeMounts": mounts}]}
    }))
    .unwrap()
}

#[tokio::test]
async fn a_config_map_lies_where_upstream_puts_it_and_goes_with_the_pod() {
    let root = tempfile::tempdir().unwrap();
    let all = volumes_at(root.path());
    let pod = pod(
        json!([{"name": "v", "configMap": {"name": "settings"}}, {"name": "e", "emptyDir": {}}]),
        json!([{"name": "v", "mountPath": "/etc/v"}, {"name": "e", "mountPath": "/e"}]),
    );
    all.mount(&pod).await.unwrap();
    let dir = root.path().join("pods/u1/volumes/kubernetes.io~configmap/v");
    assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "1");
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let mounts = all.container_mounts(&pod, container, &[]).await.unwrap();
    assert_eq!((mounts[0].host_path.as_path(), mounts[0].read_only), (dir.as_path(), true));
    assert!(!mounts[1].read_only);
    all.unmount("u1").unwrap();
    assert!(!root.path().join("pods/u1/volumes").exists());
}

#[tokio::test]
async fn what_is_missing_or_unsupported_is_named() {
    let root = tempfile::tempdir().unwrap();
    let all = volumes_at(root.path());
    let error = |volume| {
        let pod = pod(json!([volume]), json!([]));
        let all = &all;
        async move { all.mount(&pod).await.unwrap_err() }
    };
    let missing = error(json!({"name": "v", "configMap": {"name": "none"}})).await;
    assert_eq!(
        missing.to_string(),
        "MountVolume.SetUp failed for volume \"v\" : configmap \"none\" not found"
    );
    let nfs = error(json!({"name": "v", "nfs": {"server": "s", "path": "/"}})).await;
    assert!(nfs.permanent() && nfs.to_string().contains("nfs"), "{nfs}");
    let orphan = pod(json!([]), json!([{"name": "v", "mountPath": "/v"}]));
    let container = &orphan.spec.as_ref().unwrap().containers[0];
    assert!(all.container_mounts(&orphan, container, &[]).await.unwrap_err().permanent());
}

#[tokio::test]
async fn a_projection_joins_its_sources_and_names_all_that_fail() {
    let sources = json!([
        {"clusterTrustBundle": {"name": "b", "path": "ca.pem"}},
        {"podCertificate": {"signerName": "s/x", "keyType": "ECDSAP256", "credentialBundlePath": "both",
            "certificateChainPath": "chain"}}
    ]);
    let mut user = pod(json!([{"name": "v", "projected": {"sources": sources}}]), json!([]));
    let container = user.spec.as_mut().unwrap().containers.first_mut().unwrap();
    container.security_context = Some(serde_json::from_value(json!({"runAsUser": 7})).unwrap());
    let volume = user.spec.as_ref().unwrap().volumes.as_ref().unwrap()[0].clone();
    let payload = contents::payload(&user, &volume, &Objects, &NodeFacts::default()).await.unwrap();
    let text = |path: &str| String::from_utf8(payload[path].data.clone()).unwrap();
    assert_eq!(text("ca.pem"), "anchors of b");
    assert_eq!(text("both"), "key,chain of s/x at v[1]");
    assert_eq!(text("chain"), "chain of s/x at v[1]");
    assert_eq!((payload["ca.pem"].mode, payload["ca.pem"].owner), (0o600, Some(7)));
    assert_eq!(payload.len(), 3);
    let sources = json!([{"secret": {"name": "a"}}, {"configMap": {"name": "b"}}, {"secret": {"name": "a"}}]);
    let failing = pod(json!([{"name": "v", "projected": {"sources": sources}}]), json!([]));
    let volume = failing.spec.as_ref().unwrap().volumes.as_ref().unwrap()[0].clone();
    let error = contents::payload(&failing, &volume, &Objects, &NodeFacts::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "[secret \"a\" not found, configmap \"b\" not found]");
    assert!(!error.permanent());
}
