//! The verbs of the API, typed by what the caller wants to see of an answer.

use bytes::Bytes;
use http::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::{Call, Client};
use crate::options::{DeleteOptions, ListOptions, Patch};
use crate::{ClientError, ObjectKey, ResourceRef, Result, Target};

/// One page of a list, or the whole of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct List<T> {
    /// Revision and continuation.
    #[serde(default)]
    pub metadata: ListMeta,
    /// The objects; a server may send `null` for none.
    #[serde(default = "Vec::new", deserialize_with = "null_is_empty")]
    pub items: Vec<T>,
}

/// What a list says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The revision of the snapshot.
    pub resource_version: String,
    /// Token of the next page; empty on the last.
    #[serde(rename = "continue")]
    pub continue_token: String,
}

pub(crate) fn null_is_empty<'de, D, T>(deserializer: D) -> std::result::Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

impl Client {
    /// Reads one object, or one subresource such as `scale`.
    ///
    /// # Errors
    /// The server's Status, or a transport error.
    pub async fn get<T: DeserializeOwned>(&self, target: &Target) -> Result<T> {
        let body = self.send(Call::get(target.path(), "")).await?;
        decode(&body, target)
    }

    /// Reads a path that answers with text or any other bytes (`/metrics`, `/openapi/v3`, a log).
    ///
    /// # Errors
    /// The server's Status, or a transport error.
    pub async fn get_raw(&self, target: &Target, accept: &'static str) -> Result<Bytes> {
        let whole = target.path();
        let at = whole.find('?').unwrap_or(whole.len());
        let (path, query) = whole.split_at(at);
        self.send(Call { accept, ..Call::get(path, query) }).await
    }

    /// Reads one page of a collection (the whole, when `options.limit` is 0).
    ///
    /// # Errors
    /// The server's Status, or a transport error.
    pub async fn list<T: DeserializeOwned>(&self, target: &Target, options: &ListOptions) -> Result<List<T>> {
        let body = self.list_raw(target, options, "application/json").await?;
        decode(&body, target)
    }

    /// Reads all of a collection page by page.
    ///
    /// # Errors
    /// The server's Status, or a transport error.
    pub async fn list_all<T: DeserializeOwned>(
        &self,
        target: &Target,
        options: &ListOptions,
    ) -> Result<List<T>> {
        let mut options = ListOptions { limit: 500, ..options.clone() };
        let mut all: List<T> = self.list(target, &options).await?;
        while !all.metadata.continue_token.is_empty() {
            options.continue_token = std::mem::take(&mut all.metadata.continue_token);
            options.resource_version = String::new();
            options.resource_version_match = "";
            let page: List<T> = self.list(target, &options).await?;
            all.metadata = page.metadata;
            all.items.extend(page.items);
        }
        Ok(all)
    }

    pub(crate) async fn list_raw(
        &self,
        target: &Target,
        options: &ListOptions,
        accept: &'static str,
    ) -> Result<Bytes> {
        let query = options.query();
        self.send(Call { accept, ..Call::get(target.path(), query.as_str()) }).await
    }

    /// Posts to a collection, or to a subresource (`binding`, `eviction`, `token`); answers with what the server made.
    ///
    /// # Errors
    /// The server's Status, or a transport error.
    pub async fn create<T: DeserializeOwned>(&self, target: &Target, object: &impl Serialize) -> Result<T> {
        self.write(Method::POST, target, object).await
    }

    /// Replaces an object or a subresource.
    ///
    /// # Errors
    /// The server's Status, or a transport error.
    pub async fn update<T: DeserializeOwned>(&self, target: &Target, object: &impl Serialize) -> Result<T> {
        self.write(Method::PUT, target, object).await
    }

    /// Patches or applies.
    ///
    /// # Errors
    /// The server's Status, or a transport error.
    pub async fn patch<T: DeserializeOwned>(&self, target: &Target, patch: &Patch) -> Result<T> {
        let query = patch.query();
        let call = Call {
            method: Method::PATCH,
            content_type: patch.content_type(),
            body: encode(patch.body(), target)?,
            ..Call::get(target.path(), query.as_str())
        };
        decode(&self.send(call).await?, target)
    }

    /// Deletes one object. The answer is the object while it is still there, a Status once it is gone.
    ///
    /// # Errors
    /// The server's Status, or a transport error.
    pub async fn delete(&self, target: &Target, options: &DeleteOptions) -> Result<Value> {
        self.delete_with(target, "", options).await
    }

    /// Deletes what the selectors in `selection` match in a collection.
    ///
    /// # Errors
    /// The server's Status, or a transport error.
    pub async fn delete_collection(
        &self,
        target: &Target,
        selection: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Value> {
        self.delete_with(target, selection.query().as_str(), options).await
    }

    /// Reads an object as `reader` may list it, applies a merge patch to it and puts it at `target` (the object or its
    /// `status`): what a merge patch would do, for identities that may update but not patch, as upstream's bootstrap
    /// roles have it. Written again from a fresh read when somebody else was faster, unless the patch itself names a
    /// resource version.
    ///
    /// # Errors
    /// The server's Status (404 when the object is gone), or a transport error.
    pub async fn merge_and_update(
        &self,
        reader: &Self,
        resource: &ResourceRef,
        key: &ObjectKey,
        subresource: &str,
        patch: &Value,
    ) -> Result<Value> {
        let fixed = patch.pointer("/metadata/resourceVersion").is_some();
        let target = resource.object(&key.namespace, &key.name);
        let target = if subresource.is_empty() { target } else { target.subresource(subresource) };
        let name = ListOptions::fields(format!("metadata.name={}", key.name));
        let mut attempts = 0;
        loop {
            let found: List<Value> = reader.list(&resource.collection(&key.namespace), &name).await?;
            let Some(mut object) = found.items.into_iter().next() else {
                let gone = copepod_api::GroupResource::new(&resource.group, &resource.plural);
                return Err(copepod_api::ApiError::not_found(&gone, &key.name).into());
            };
            apply_merge(&mut object, patch);
            if let Value::Object(object) = &mut object {
                // Items of a list leave these out.
                object.insert("apiVersion".to_owned(), Value::from(resource.api_version()));
                object.insert("kind".to_owned(), Value::from(&*resource.kind));
            }
            attempts += 1;
            match self.update(&target, &object).await {
                Err(error) if error.conflict() && !fixed && attempts < 5 => {}
                other => return other,
            }
        }
    }

    async fn delete_with(&self, target: &Target, query: &str, options: &DeleteOptions) -> Result<Value> {
        let call = Call {
            method: Method::DELETE,
            content_type: "application/json",
            body: encode(options, target)?,
            ..Call::get(target.path(), query)
        };
        decode(&self.send(call).await?, target)
    }

    async fn write<T: DeserializeOwned>(
        &self,
        method: Method,
        target: &Target,
        object: &impl Serialize,
    ) -> Result<T> {
        let call = Call {
            method,
            content_type: "application/json",
            body: encode(object, target)?,
            ..Call::get(target.path(), "")
        };
        decode(&self.send(call).await?, target)
    }
}

fn encode(body: &impl Serialize, target: &Target) -> Result<Bytes> {
    let bytes = serde_json::to_vec(body);
    bytes.map(Bytes::from).map_err(|source| ClientError::Body { what: target.path().to_owned(), source })
}

fn decode<T: DeserializeOwned>(body: &Bytes, target: &Target) -> Result<T> {
    serde_json::from_slice(body)
        .map_err(|source| ClientError::Body { what: target.path().to_owned(), source })
}

/// Applies a JSON merge patch (RFC 7386).
pub fn apply_merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(map) = target.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            apply_merge(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merging_sets_removes_and_replaces_lists() {
        let mut object = json!({"a": {"b": 1, "c": [1, 2]}, "d": 1});
        apply_merge(&mut object, &json!({"a": {"b": null, "c": [3], "e": {"f": null}}, "d": {"g": 1}}));
        assert_eq!(object, json!({"a": {"c": [3], "e": {}}, "d": {"g": 1}}));
    }
}
