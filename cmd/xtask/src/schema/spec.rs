//! The published OpenAPI v3 documents: attributes that Go's struct tags do not carry.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result};
use serde_json::Value;

/// The definitions of all stable documents.
#[derive(Debug, Default)]
pub(crate) struct Spec {
    definitions: BTreeMap<String, Value>,
    /// What deletions of single objects answer with: references to definitions.
    deleted: BTreeSet<String>,
}

/// The group version of a document's file name, when it is one served by default: stable ones only.
fn stable(file: &str) -> bool {
    let Some(stem) = file.strip_suffix("_openapi.json") else { return false };
    let version = stem.rsplit("__").next().unwrap_or(stem);
    let number = version.strip_prefix('v').unwrap_or_default();
    stem == "version" || (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// What the deletions in a document answer with.
fn deleted(document: &Value) -> Vec<String> {
    let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
    let operations = paths.filter_map(|(_, item)| item.get("delete"));
    let single = operations.filter(|one| one.get("x-kubernetes-action").is_some_and(|a| a == "delete"));
    single
        .filter_map(|one| one.pointer("/responses/200/content/application~1json/schema/$ref"))
        .filter_map(|reference| reference.as_str().map(str::to_owned))
        .collect()
}

impl Spec {
    /// Reads the documents of `dir`.
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let mut spec = Self::default();
        for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
            let path = entry?.path();
            let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // Group lists (`/apis/apps`) hold the discovery types.
            if stable(file)
                || file == "apis_openapi.json"
                || file == "api_openapi.json"
                || file == "apis__apps_openapi.json"
            {
                let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
                let mut document: Value =
                    serde_json::from_str(&text).with_context(|| format!("parse {}", path.display()))?;
                spec.deleted.extend(deleted(&document));
                let schemas = document.pointer_mut("/components/schemas").map(Value::take);
                if let Some(Value::Object(schemas)) = schemas {
                    spec.definitions.extend(schemas);
                }
            }
        }
        Ok(spec)
    }

    /// Whether a deletion answers with the object.
    pub(crate) fn returns_deleted(&self, model: &str) -> bool {
        self.deleted.contains(&format!("#/components/schemas/{model}"))
    }

    /// Names of all definitions.
    pub(crate) fn models(&self) -> impl Iterator<Item = &str> {
        self.definitions.keys().map(String::as_str)
    }

    /// One definition.
    pub(crate) fn get(&self, model: &str) -> Option<&Value> {
        self.definitions.get(model)
    }

    /// The packages of `k8s.io/api` that define any of the types, such as `core/v1`.
    pub(crate) fn api_packages(&self) -> BTreeSet<String> {
        self.models()
            .filter_map(|model| model.strip_prefix("io.k8s.api."))
            .filter_map(|rest| rest.rsplit_once('.'))
            .map(|(package, _)| package.replace('.', "/"))
            .collect()
    }

    /// The one kind that a definition serves, as `group/version/Kind`.
    pub(crate) fn gvk(&self, model: &str) -> Option<String> {
        let list = self.get(model)?.get("x-kubernetes-group-version-kind")?.as_array()?;
        let [one] = list.as_slice() else { return None };
        let part = |key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default();
        Some(format!("{}/{}/{}", part("group"), part("version"), part("kind")))
    }

    /// The definition of a kind.
    pub(crate) fn model_of(&self, group: &str, version: &str, kind: &str) -> Option<&str> {
        let wanted = format!("{group}/{version}/{kind}");
        self.models().find(|model| self.gvk(model).as_deref() == Some(&wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::stable;

    #[test]
    fn only_stable_documents_count() {
        assert!(stable("apis__apps__v1_openapi.json"));
        assert!(stable("api__v1_openapi.json"));
        assert!(!stable("apis__resource.k8s.io__v1beta1_openapi.json"));
        assert!(!stable("apis__apps_openapi.json"));
    }
}
