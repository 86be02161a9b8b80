//! Create and update requests.

use copepod_api::{ApiError, ApiResult, meta};
use serde_json::Value;

use super::{
    Store,
    pipeline::{Change, Part},
};
use crate::{
    codec,
    error::unreasoned,
    metadata,
    object::{Object, Written},
    request::{Body, RequestContext, Target},
    subresource,
};

impl Store {
    /// Creates an object, or posts to a subresource (`binding`, `eviction`, `token`).
    ///
    /// # Errors
    /// Whatever decoding, admission, validation and storage refuse.
    pub async fn create(&self, cx: &RequestContext, target: &Target, body: Body) -> ApiResult<Object> {
        if let Some(name) = target.subresource.as_deref() {
            return subresource::create(self, cx, target, name, &body).await;
        }
        let mut object = self.decode(cx, &body)?;
        metadata::dedup_owners(&mut object, &cx.warnings, "");
        if !matches!(meta::resource_version(&object), "" | "0") {
            return Err(unreasoned("resourceVersion should not be set on objects to be created"));
        }
        if !target.name.is_empty() && meta::name(&object) != target.name {
            return Err(ApiError::bad_request("name in URL does not match name in object"));
        }
        if self.row.allocation.is_some() {
            let (store, cx, target) = (self.clone(), cx.clone(), target.clone());
            return Self::whole(async move { store.create_value(&cx, &target, object).await }).await;
        }
        Box::pin(self.create_value(cx, target, object)).await
    }

    /// Replaces an object, or the part of it that a subresource covers.
    ///
    /// # Errors
    /// As [`Self::create`]; 409 when the object's `resourceVersion` is not the current one.
    pub async fn update(&self, cx: &RequestContext, target: &Target, body: Body) -> ApiResult<Written> {
        if self.row.allocation.is_some() {
            let (store, cx, target) = (self.clone(), cx.clone(), target.clone());
            return Self::whole(async move { store.replace(&cx, &target, &body).await }).await;
        }
        self.replace(cx, target, &body).await
    }

    async fn replace(&self, cx: &RequestContext, target: &Target, body: &Body) -> ApiResult<Written> {
        let part = match target.subresource.as_deref() {
            Some("scale") => return subresource::scale::update(self, cx, target, body).await,
            other => part(other)?,
        };
        let mut object = self.decode(cx, body)?;
        metadata::dedup_owners(&mut object, &cx.warnings, "");
        check_names(&object, target)?;
        let uid = meta::uid(&object).to_owned();
        let make = |old: Option<&Value>| {
            self.check_uid(target, &uid, old.map_or("", meta::uid))?;
            Ok(object.clone())
        };
        let create = part == Part::Whole && self.row.hooks.create_on_update();
        let change = Change { target, part, make: &make, create, owned: false };
        Box::pin(self.change(cx, &change)).await
    }

    /// A body of this row, defaulted and in the working version.
    pub(crate) fn decode(&self, cx: &RequestContext, body: &Body) -> ApiResult<Value> {
        let row = &self.row;
        let mut object = codec::body(cx, body, &row.def, row.schema.root())?;
        self.accept(&mut object);
        Ok(object)
    }

    /// A decoded object of the served version: defaults, and on to the working version.
    pub(crate) fn accept(&self, object: &mut Value) {
        codec::default(object, self.row.schema.root());
        self.row.conversion.accept(object);
        self.default(object);
    }

    fn check_uid(&self, target: &Target, wanted: &str, found: &str) -> ApiResult<()> {
        if wanted.is_empty() || wanted == found {
            return Ok(());
        }
        let key = self.key(target.namespace.as_deref(), &target.name);
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
        );
        Err(ApiError::conflict(&self.resource(), &target.name, &why))
    }
}

/// The part a subresource covers.
pub(super) fn part(subresource: Option<&str>) -> ApiResult<Part> {
    Ok(match subresource {
        None => Part::Whole,
        Some("status") => Part::Status,
        Some("finalize") => Part::Sub("finalize"),
        Some("approval") => Part::Sub("approval"),
        Some("ephemeralcontainers") => Part::Sub("ephemeralcontainers"),
        Some("resize") => Part::Sub("resize"),
        Some(_) => return Err(ApiError::no_such_resource()),
    })
}

/// Name and namespace of a body must be those of the path.
pub(super) fn check_names(object: &Value, target: &Target) -> ApiResult<()> {
    let (name, namespace) = (meta::name(object), meta::namespace(object));
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )));
    }
    if name != target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    match target.namespace.as_deref() {
        Some(wanted) if !namespace.is_empty() && namespace != wanted => Err(ApiError::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({wanted})"
        ))),
        _ => Ok(()),
    }
}
