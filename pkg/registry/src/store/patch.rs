//! Patch requests: the three patch types that change the current object, and server-side apply.

use copepod_api::{ApiError, ApiResult, Reason, meta};
use copepod_schema::patch::{self, PatchType};
use serde_json::Value;

use super::{
    Store,
    pipeline::{Change, Part, is_conflict},
    update::{self, part},
};
use crate::{
    codec, metadata,
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
        if patch.kind != PatchKind::Apply && copepod_api::json::error(&patch.body).is_some() {
            return Err(ApiError::bad_request("invalid JSON patch"));
        }
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
            let patched = patch::apply(
                type_,
                &current,
                &patch.body,
                row.schema.root(),
                cx.field_validation,
                |patched| {
                    // A strategic patch is merged into the struct of the kind, whatever it says.
                    let checked = type_ != PatchType::Strategic;
                    checked.then(|| codec::type_mismatch(patched, &row.def.gvk())).flatten()
                },
            )?;
            for warning in patched.warnings {
                cx.warnings.add(warning);
            }
            let mut object = patched.object;
            codec::set_type(&mut object, &row.def.gvk());
            metadata::match_namespace(&mut object, target.namespace.as_deref())?;
            update::check_names(&object, target)?;
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
        let (config, twice) = codec::applied(&patch.body)?;
        let row = &self.row;
        let uid = meta::uid(&config).to_owned();
        let make = |old: Option<&Value>| {
            let mut object = ownership::apply(cx, row, old, &config, part.name(), patch.force)?;
            codec::complain(cx, twice.as_deref())?;
            if old.is_none() && !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(ApiError::conflict(&self.resource(), &target.name, &why));
            }
            metadata::match_namespace(&mut object, target.namespace.as_deref())?;
            update::check_names(&object, target)?;
            self.default(&mut object);
            Ok(object)
        };
        let create = part == Part::Whole;
        self.change(cx, &Change { target, part, make: &make, create, owned: true }).await
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
}

/// Whether a conflict came from a race, not from managers of an apply or a condition.
fn is_race(error: &ApiError) -> bool {
    error.status().message.ends_with("please apply your changes to the latest version and try again")
}
