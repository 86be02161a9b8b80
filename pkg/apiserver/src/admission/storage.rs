//! StorageObjectInUseProtection (finalizers of volumes and claims) and PersistentVolumeClaimResize.

use async_trait::async_trait;
use copepod_api::{ApiResult, Quantity, meta};
use copepod_registry::{Admission, Attributes, Operation};
use serde_json::{Value, json};

use super::{Deps, creates, forbid, is, list_mut, text};

#[derive(Debug)]
pub(super) struct StorageObjectInUseProtection;

/// Resource, finalizer.
const PROTECTED: &[(&str, &str, &str)] = &[
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

#[async_trait]
impl Admission for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        let row = PROTECTED.iter().find(|(group, resource, _)| creates(attributes, group, resource));
        if let Some((.., finalizer)) = row
            && let Some(list) = list_mut(meta::metadata_mut(object), "finalizers")
            && !list.iter().any(|f| f.as_str() == Some(finalizer))
        {
            list.push(json!(finalizer));
        }
        Ok(())
    }
}

/// Only claims of a class that allows it may grow.
#[derive(Debug)]
pub(super) struct PersistentVolumeClaimResize(pub Deps);

#[async_trait]
impl Admission for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        let (Some(new), Some(old)) = (object, attributes.old) else { return Ok(()) };
        if attributes.operation != Operation::Update || !is(attributes, "", "persistentvolumeclaims") {
            return Ok(());
        }
        let size = |claim: &Value| {
            claim
                .pointer("/spec/resources/requests/storage")
                .and_then(Value::as_str)
                .and_then(|q| q.parse::<Quantity>().ok())
        };
        if size(new) <= size(old) {
            return Ok(());
        }
        if old.pointer("/status/phase").and_then(Value::as_str) != Some("Bound") {
            return Err(forbid(attributes, object, "Only bound persistent volume claims can be expanded"));
        }
        let class = text(&new["spec"], "storageClassName");
        let class = self.0.reader.get("storage.k8s.io", "storageclasses", None, class).await;
        if class.is_some_and(|c| c["allowVolumeExpansion"].as_bool() == Some(true)) {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        Err(forbid(attributes, object, why))
    }
}
