//! ServiceAccount: every pod runs as one, and gets its token, the cluster's CA and its namespace in a volume.

use std::time::Duration;

use async_trait::async_trait;
use copepod_api::{ApiResult, meta};
use copepod_registry::{Admission, Attributes, Operation};
use rand::RngExt as _;
use serde_json::{Map, Value, json};

use super::{Deps, forbid, is, is_mirror, items, list_mut, spec_mut, text};

const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
/// The lifetime that marks tokens which the server may extend.
const EXPIRATION_SECONDS: i64 = 60 * 60 + 7;
/// The alphabet of generated names.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How often and how long to wait for a new namespace's default account.
const TRIES: u32 = 10;
const RETRY: Duration = Duration::from_millis(150);

#[derive(Debug)]
pub(super) struct ServiceAccount(pub Deps);

#[async_trait]
impl Admission for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        let creating = attributes.operation == Operation::Create && is(attributes, "", "pods");
        if creating && !is_mirror(object) { self.fill(attributes, object).await } else { Ok(()) }
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let Some(pod) =
            object.filter(|_| attributes.operation == Operation::Create && is(attributes, "", "pods"))
        else {
            return Ok(());
        };
        if is_mirror(pod) {
            return check_mirror(pod).map_err(|why| forbid(attributes, object, why));
        }
        if text(&pod["spec"], "serviceAccountName").is_empty() {
            let why =
                format!("no service account specified for pod {}/{}", attributes.namespace, meta::name(pod));
            return Err(forbid(attributes, object, why));
        }
        Ok(())
    }
}

impl ServiceAccount {
    async fn fill(&self, attributes: &Attributes<'_>, pod: &mut Value) -> ApiResult<()> {
        let name = match text(&pod["spec"], "serviceAccountName") {
            "" => "default".to_owned(),
            given => given.to_owned(),
        };
        let Some(account) = self.account(attributes.namespace, &name).await else {
            let namespace = attributes.namespace;
            let why = format!(
                "error looking up service account {namespace}/{name}: serviceaccount {} not found",
                copepod_api::field::quote(&name)
            );
            return Err(forbid(attributes, Some(pod), why));
        };
        let automount = pod["spec"]
            .get("automountServiceAccountToken")
            .and_then(Value::as_bool)
            .or_else(|| account.get("automountServiceAccountToken").and_then(Value::as_bool))
            .unwrap_or(true);
        let Some(spec) = spec_mut(pod) else { return Ok(()) };
        spec.insert("serviceAccountName".to_owned(), json!(name));
        spec.insert("serviceAccount".to_owned(), json!(name));
        if automount {
            mount_token(spec);
        }
        let secrets: Vec<Value> = items(&account, "imagePullSecrets").cloned().collect();
        let has_own = spec.get("imagePullSecrets").and_then(Value::as_array).is_some_and(|l| !l.is_empty());
        if !has_own && !secrets.is_empty() {
            spec.insert("imagePullSecrets".to_owned(), Value::Array(secrets));
        }
        Ok(())
    }

    async fn account(&self, namespace: &str, name: &str) -> Option<Value> {
        let tries = if name == "default" { TRIES } else { 1 };
        for attempt in 0..tries {
            if attempt > 0 {
                tokio::time::sleep(RETRY).await;
            }
            let found = self.0.reader.get("", "serviceaccounts", Some(namespace), name).await;
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

fn check_mirror(pod: &Value) -> Result<(), &'static str> {
    let spec = &pod["spec"];
    if !text(spec, "serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    let secret_env = ["containers", "initContainers", "ephemeralContainers"].iter().any(|list| {
        items(spec, list).any(|c| {
            items(c, "env").any(|e| e.pointer("/valueFrom/secretKeyRef").is_some())
                || items(c, "envFrom").any(|e| e.get("secretRef").is_some())
        })
    });
    let secret_volume = items(spec, "volumes").any(|v| {
        v.get("secret").is_some()
            || v.get("projected").is_some_and(|p| items(p, "sources").any(|s| s.get("secret").is_some()))
    });
    if secret_env || secret_volume || items(spec, "imagePullSecrets").next().is_some() {
        return Err("a mirror pod may not reference secrets");
    }
    let token = |v: &Value| {
        v.get("projected")
            .is_some_and(|p| items(p, "sources").any(|s| s.get("serviceAccountToken").is_some()))
    };
    if items(spec, "volumes").any(token) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

fn mount_token(spec: &mut Map<String, Value>) {
    let volumes = spec.get("volumes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let existing =
        volumes.iter().map(|v| text(v, "name")).find(|n| n.starts_with(VOLUME_PREFIX)).map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| {
        let mut rng = rand::rng();
        let suffix: String =
            (0..5).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect();
        format!("{VOLUME_PREFIX}{suffix}")
    });
    let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let Some(mounts) = list_mut(container, "volumeMounts") else { continue };
            if mounts.iter().all(|m| text(m, "mountPath") != MOUNT_PATH) {
                mounts.push(mount.clone());
                needed = true;
            }
        }
    }
    if needed
        && existing.is_none()
        && let Some(volumes) = list_mut(spec, "volumes")
    {
        volumes.push(json!({"name": name, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": EXPIRATION_SECONDS}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]}}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_mounted_once() {
        let mut pod = json!({"spec": {"containers": [{"name": "a"},
            {"name": "b", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]}], "initContainers": [{"name": "i"}]}});
        mount_token(spec_mut(&mut pod).unwrap());
        mount_token(spec_mut(&mut pod).unwrap());
        let spec = &pod["spec"];
        assert_eq!(spec["volumes"].as_array().unwrap().len(), 1);
        let name = spec["volumes"][0]["name"].as_str().unwrap();
        assert!(name.starts_with(VOLUME_PREFIX) && name.len() == VOLUME_PREFIX.len() + 5);
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], name);
        assert_eq!(spec["containers"][1]["volumeMounts"].as_array().unwrap().len(), 1);
        assert_eq!(spec["initContainers"][0]["volumeMounts"][0]["mountPath"], MOUNT_PATH);
    }

    #[test]
    fn mirror_pods_refer_to_nothing() {
        assert!(check_mirror(&json!({"spec": {"containers": [{"name": "a"}]}})).is_ok());
        let secret = json!({"spec": {"volumes": [{"name": "s", "secret": {"secretName": "x"}}]}});
        assert_eq!(check_mirror(&secret).unwrap_err(), "a mirror pod may not reference secrets");
        assert!(check_mirror(&json!({"spec": {"serviceAccountName": "x"}})).is_err());
    }
}
