//! POST, PUT, PATCH and DELETE.

use copepod_api::{ApiError, ApiResult, Reason, ResourceDef};
use copepod_registry::{Body as Content, Deleted, Patch, PatchKind, Target};
use http::{Response, header};

use super::StoreRef;
use super::read::{accepted, one, target};
use crate::body::Body;
use crate::negotiate::{Encoding, Transforms, body_encoding};
use crate::protobuf;
use crate::request::{WriteOptions, delete_options, list_options};
use crate::respond;
use crate::server::{Call, Server};

async fn content(call: &mut Call) -> ApiResult<Content> {
    let encoding = body_encoding(call.header(header::CONTENT_TYPE))?;
    let body = call.read_body().await?;
    Ok(match encoding {
        Encoding::Json => Content::Json(body),
        Encoding::Yaml => Content::Yaml(body),
        Encoding::Protobuf => Content::Json(protobuf::to_json(&body)?),
    })
}

/// The options in the body of a DELETE, as JSON.
async fn delete_body(call: &mut Call) -> ApiResult<bytes::Bytes> {
    let encoding = body_encoding(call.header(header::CONTENT_TYPE))?;
    let body = call.read_body().await?;
    match encoding {
        Encoding::Protobuf => protobuf::to_json(&body),
        Encoding::Yaml if !body.is_empty() => {
            let parsed = copepod_schema::decode::yaml(&body).map_err(ApiError::bad_request)?;
            Ok(parsed.value.to_string().into())
        }
        Encoding::Yaml | Encoding::Json => Ok(body),
    }
}

/// The kind of a patch. Built-in resources are refused another by their router, custom ones by their handler, and the
/// texts are not the same.
fn patch_kind(content_type: &str, def: &ResourceDef) -> ApiResult<PatchKind> {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let kinds = [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic, PatchKind::Apply];
    let known = |k: &PatchKind| !(def.custom && *k == PatchKind::Strategic);
    let mut kinds = kinds.into_iter().filter(known);
    if let Some(kind) = kinds.clone().find(|k| k.media_type() == media_type) {
        return Ok(kind);
    }
    let text = if def.custom {
        let all: Vec<&str> = kinds.by_ref().map(|k| k.media_type()).collect();
        format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            all.join(", ")
        )
    } else {
        "415: Unsupported Media Type".to_owned()
    };
    let mut error = ApiError::new(Reason::UnsupportedMediaType, text);
    error.status_mut().details = (!def.custom).then(copepod_api::status::StatusDetails::default);
    Err(error)
}

impl Server {
    /// POST to a collection or to a subresource.
    pub(super) async fn create(&self, store: &StoreRef, mut call: Call) -> ApiResult<Response<Body>> {
        let accepted = accepted(&call, store.def(), Transforms::One)?;
        let options = WriteOptions::read(&call.query, "CreateOptions")?;
        let body = content(&mut call).await?;
        let cx = call.write_context(&options, &self.admission);
        let object = store.create(&cx, &target(&call), body).await?;
        one(201, store.def(), &call, accepted, &object)
    }

    /// POST to `bindings`, the older address of `pods/<name>/binding`: the body names the pod.
    pub(super) async fn bind(&self, mut call: Call) -> ApiResult<Response<Body>> {
        let pods = copepod_api::GroupVersionResource::new("", "v1", "pods");
        let (Some(store), "create") = (self.registry.store(&pods), call.info.verb.as_str()) else {
            return Err(super::not_allowed());
        };
        let accepted = accepted(&call, store.def(), Transforms::One)?;
        let options = WriteOptions::read(&call.query, "CreateOptions")?;
        let body = content(&mut call).await?;
        let parsed: serde_json::Value = match &body {
            Content::Json(bytes) => serde_json::from_slice(bytes).unwrap_or_default(),
            Content::Yaml(bytes) => serde_saphyr::from_slice(bytes).unwrap_or_default(),
            Content::Value(value) => value.clone(),
        };
        let target = Target::new(call.namespace(), copepod_api::meta::name(&parsed)).sub("binding");
        let cx = call.write_context(&options, &self.admission);
        let object = store.create(&cx, &target, body).await?;
        one(201, store.def(), &call, accepted, &object)
    }

    /// PUT.
    pub(super) async fn update(&self, store: &StoreRef, mut call: Call) -> ApiResult<Response<Body>> {
        let accepted = accepted(&call, store.def(), Transforms::One)?;
        let options = WriteOptions::read(&call.query, "UpdateOptions")?;
        let body = content(&mut call).await?;
        let cx = call.write_context(&options, &self.admission);
        let written = store.update(&cx, &target(&call), body).await?;
        one(if written.created { 201 } else { 200 }, store.def(), &call, accepted, &written.object)
    }

    /// PATCH.
    pub(super) async fn patch(&self, store: &StoreRef, mut call: Call) -> ApiResult<Response<Body>> {
        let kind = patch_kind(call.header(header::CONTENT_TYPE), store.def())?;
        let accepted = accepted(&call, store.def(), Transforms::One)?;
        let options = WriteOptions::read_patch(&call.query, kind)?;
        let patch = Patch { kind, body: call.read_body().await?, force: options.force };
        let cx = call.write_context(&options, &self.admission);
        let written = store.patch(&cx, &target(&call), &patch).await?;
        one(if written.created { 201 } else { 200 }, store.def(), &call, accepted, &written.object)
    }

    /// DELETE of one object.
    pub(super) async fn delete(&self, store: &StoreRef, mut call: Call) -> ApiResult<Response<Body>> {
        let accepted = accepted(&call, store.def(), Transforms::One)?;
        let body = delete_body(&mut call).await?;
        let (options, dry_run) = delete_options(&body, &call.query)?;
        let write = WriteOptions { dry_run, ..WriteOptions::default() };
        let cx = call.write_context(&write, &self.admission);
        match store.delete(&cx, &target(&call), &options).await? {
            Deleted::Status(status) => {
                let bytes = serde_json::to_vec(&status).map_err(ApiError::internal)?;
                Ok(respond::object(200, accepted, bytes.into()))
            }
            Deleted::Object { object, .. } => one(200, store.def(), &call, accepted, &object),
        }
    }

    /// DELETE of a collection.
    pub(super) async fn delete_collection(
        &self,
        store: &StoreRef,
        mut call: Call,
    ) -> ApiResult<Response<Body>> {
        let accepted = accepted(&call, store.def(), Transforms::List)?;
        let list = list_options(&call.query)?;
        let body = delete_body(&mut call).await?;
        let (options, dry_run) = delete_options(&body, &call.query)?;
        let write = WriteOptions { dry_run, ..WriteOptions::default() };
        let cx = call.write_context(&write, &self.admission);
        let deleted = store.delete_collection(&cx, call.namespace(), &options, &list).await?;
        Ok(respond::object(200, accepted, deleted.to_bytes()))
    }
}
