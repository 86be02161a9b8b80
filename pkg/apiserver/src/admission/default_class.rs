//! DefaultStorageClass and DefaultIngressClass: the class marked as default, for objects that name none.

use async_trait::async_trait;
use copepod_api::{ApiResult, meta};
use copepod_registry::{Admission, Attributes};
use serde_json::{Value, json};

use super::{Deps, creates, forbid, spec_mut};

#[derive(Debug)]
pub(super) struct DefaultStorageClass(pub Deps);

#[derive(Debug)]
pub(super) struct DefaultIngressClass(pub Deps);

/// Whether a class carries one of the annotations that mark a default.
fn is_default(class: &Value, annotations: &[&str]) -> bool {
    annotations.iter().any(|a| meta::annotation(class, a) == Some("true"))
}

/// Newest first, then by name: upstream's choice where several are marked.
fn newest(mut classes: Vec<Value>) -> Vec<Value> {
    let created =
        |c: &Value| c.pointer("/metadata/creationTimestamp").and_then(Value::as_str).map(str::to_owned);
    classes.sort_by(|a, b| created(b).cmp(&created(a)).then_with(|| meta::name(a).cmp(meta::name(b))));
    classes
}

#[async_trait]
impl Admission for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        const DEFAULT: &[&str] = &[
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ];
        let named = object["spec"].get("storageClassName").is_some_and(|v| !v.is_null())
            || meta::annotation(object, "volume.beta.kubernetes.io/storage-class").is_some();
        if named || !creates(attributes, "", "persistentvolumeclaims") {
            return Ok(());
        }
        let mut classes = self.0.reader.list("storage.k8s.io", "storageclasses", None, "").await;
        classes.retain(|c| is_default(c, DEFAULT));
        if let (Some(class), Some(spec)) = (newest(classes).first(), spec_mut(object)) {
            spec.insert("storageClassName".to_owned(), json!(meta::name(class)));
        }
        Ok(())
    }
}

#[async_trait]
impl Admission for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        let named = object["spec"].get("ingressClassName").is_some_and(|v| !v.is_null())
            || meta::annotation(object, "kubernetes.io/ingress.class").is_some();
        if named || !creates(attributes, "networking.k8s.io", "ingresses") {
            return Ok(());
        }
        let mut classes = self.0.reader.list("networking.k8s.io", "ingressclasses", None, "").await;
        classes.retain(|c| is_default(c, &["ingressclass.kubernetes.io/is-default-class"]));
        if classes.len() > 1 {
            let why = format!("{} default IngressClasses were found, only 1 allowed", classes.len());
            tracing::debug!(why, "the newest is taken");
        }
        match (newest(classes).first(), spec_mut(object)) {
            (Some(class), Some(spec)) => {
                spec.insert("ingressClassName".to_owned(), json!(meta::name(class)));
                Ok(())
            }
            (_, None) => Err(forbid(attributes, None, "the object is not a map")),
            _ => Ok(()),
        }
    }
}
