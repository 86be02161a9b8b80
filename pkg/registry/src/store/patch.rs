//! Patch requests: the three patch types that change the current object, and server-side apply.

use copepod_api::{ApiError, ApiResult, Reason, meta};
use copepod_schema::patch::{self, PatchType};
use serde_json::Value;

use super::{
    Store,
    pipeline::{Change, Part, is_conflict},
    update::part,
};
use crate::{
    codec,
    object::Written,
    ownership,
    request::{Patch, PatchKind, RequestContext, Target},
    subresource,
};

/// Attempts of a patch that does not name a resource version, as upstream's.
const RETRIES: usize = 5;

impl Store {
    /// Patches an object, or the part of it that a subresource covers.
    ///
    /// # Errors
    /// As [`Store::update`], and what is wrong with the patch; 409 with the managers for an apply that conflicts.
    pub async fn patch(&self, cx: &RequestContext, target: &Target, patch: &Patch) -> ApiResult<Written> {
        if self.row.allocation.is_some() {
            let (store, cx, target, patch) = (self.clone(), cx.clone(), target.clone(), patch.clone());
            return Self::whole(async move { store.patch_here(&cx, &target, &patch).await }).await;
        }
        self.patch_here(cx, target, patch).await
    }

    async fn patch_here(&self, cx: &RequestContext, target: &Target, patch: &Patch) -> ApiResult<Written> {
        self.check_media_type(patch.kind)?;
        let part = match target.subresource.as_deref() {
            Some("scale") => return subresource::scale::patch(self, cx, target, patch).await,
            other => part(other)?,
        };
        let mut left = RETRIES;
        loop {
            left -= 1;
            let done = match patch.kind {
                PatchKind::Apply => Box::pin(self.apply(cx, target, part, patch)).await,
                kind => Box::pin(self.merge_patch(cx, target, part, kind, patch)).await,
            };
            match done {
                Err(error) if left > 0 && is_conflict(&error) && is_race(&error) => {}
                done => return done,
            }
        }
    }

    async fn merge_patch(
        &self,
        cx: &RequestContext,
        target: &Target,
        part: Part,
        kind: PatchKind,
        patch: &Patch,
    ) -> ApiResult<Written> {
        let type_ = match kind {
            PatchKind::Json => PatchType::Json,
            PatchKind::Strategic => PatchType::Strategic,
            PatchKind::Merge | PatchKind::Apply => PatchType::Merge,
        };
        let row = &self.row;
        let make = |old: Option<&Value>| {
            let old = old.ok_or_else(|| self.not_found(&target.name))?;
            let current = row.serve(old.clone());
            let patched = patch::apply(type_, &current, &patch.body, row.schema.root(), cx.field_validation)
                .map_err(|error| self.named(error, &target.name))?;
            for warning in patched.warnings {
                cx.warnings.add(warning);
            }
            let mut object = patched.object;
            self.check_patched_type(&object)?;
            self.accept(&mut object);
            Ok(object)
        };
        self.change(cx, &Change { target, part, make: &make, create: false, owned: false }).await
    }

    async fn apply(
        &self,
        cx: &RequestContext,
        target: &Target,
        part: Part,
        patch: &Patch,
    ) -> ApiResult<Written> {
        let config = codec::applied(cx, &patch.body)?;
        check_config(&config, target)?;
        let row = &self.row;
        let uid = meta::uid(&config).to_owned();
        let make = |old: Option<&Value>| {
            if old.is_none() && !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(ApiError::conflict(&self.resource(), &target.name, &why));
            }
            let mut object = ownership::apply(cx, row, old, &config, part.name(), patch.force)?;
            if old.is_none() {
                let metadata = meta::metadata_mut(&mut object);
                metadata.insert("name".to_owned(), target.name.clone().into());
            }
            self.default(&mut object);
            Ok(object)
        };
        let create = part == Part::Whole;
        self.change(cx, &Change { target, part, make: &make, create, owned: true }).await
    }

    /// A patch changes an object, not what it is.
    fn check_patched_type(&self, patched: &Value) -> ApiResult<()> {
        let text = |key: &str| patched.get(key).and_then(Value::as_str).unwrap_or_default();
        let wanted = self.row.def.gvk();
        if text("kind") == wanted.kind && text("apiVersion") == wanted.api_version() {
            return Ok(());
        }
        let why = codec::wrong_type(text("kind"), text("apiVersion"), &wanted);
        let shown = patched.to_string();
        let error = copepod_api::FieldError::invalid(&copepod_api::FieldPath::new("patch"), shown, why);
        Err(ApiError::invalid(&copepod_api::GroupVersionKind::default(), "", &vec![error]))
    }

    /// Custom resources know no strategic merge.
    pub(crate) fn check_media_type(&self, kind: PatchKind) -> ApiResult<()> {
        if kind != PatchKind::Strategic || !self.row.def.custom {
            return Ok(());
        }
        Err(ApiError::new(
            Reason::UnsupportedMediaType,
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        ))
    }

    /// A patch that does not fit is invalid for a nameless object of no kind; the object is named here.
    fn named(&self, mut error: ApiError, name: &str) -> ApiError {
        if error.is(Reason::Invalid)
            && let Some(details) = &mut error.status_mut().details
            && details.kind.is_empty()
            && details.causes.iter().any(|cause| cause.field == "patch")
        {
            name.clone_into(&mut details.name);
        }
        error
    }
}

/// Name and namespace of an applied configuration must be those of the path.
fn check_config(config: &Value, target: &Target) -> ApiResult<()> {
    let (name, namespace) = (meta::name(config), meta::namespace(config));
    if name != target.name && !name.is_empty() {
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

/// Whether a conflict came from a race, not from managers of an apply or a condition.
fn is_race(error: &ApiError) -> bool {
    error.status().message.ends_with("please apply your changes to the latest version and try again")
}
