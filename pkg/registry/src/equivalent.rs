//! One object in several versions: what admission shows to a webhook or policy that knows another version than the
//! request's, and how its changes come back.

use std::sync::Arc;

use copepod_api::{ApiError, ApiResult, GroupVersionKind, GroupVersionResource};
use serde_json::Value;

use crate::{
    codec,
    registry::Registry,
    row::{Row, Schema},
    store::Store,
};

impl Registry {
    /// The other resources that are the same objects, with the kind each (or its subresource) has.
    #[must_use]
    pub fn equivalents(
        &self,
        resource: &GroupVersionResource,
        subresource: &str,
    ) -> Vec<(GroupVersionResource, GroupVersionKind)> {
        let rows = self.all();
        let Some(own) = rows.iter().find(|row| row.def.gvr() == *resource) else { return Vec::new() };
        let same =
            |row: &&Arc<Row>| row.def.storage_prefix == own.def.storage_prefix && row.def.gvr() != *resource;
        let kind = |row: &Arc<Row>| {
            if subresource.is_empty() {
                return Some(row.def.gvk());
            }
            row.def.subresource(subresource).map(|sub| sub.kind.clone().unwrap_or_else(|| row.def.gvk()))
        };
        rows.iter().filter(same).filter_map(|row| Some((row.def.gvr(), kind(row)?))).collect()
    }

    /// The kind in whose form admission of this resource sees objects, and the kind clients see.
    #[must_use]
    pub fn kinds(&self, resource: &GroupVersionResource) -> Option<(GroupVersionKind, GroupVersionKind)> {
        let store = self.store(resource)?;
        Some((store.row.working.clone(), store.row.def.gvk()))
    }

    /// The schema of a kind that `resource` or one of its subresources has; `None` when there is none.
    #[must_use]
    pub fn schema(&self, resource: &GroupVersionResource, kind: &GroupVersionKind) -> Option<Schema> {
        let row = self.store(resource)?.row;
        if row.def.gvk() == *kind {
            return Some(row.schema.clone());
        }
        let schema = copepod_schema::builtin().kind(&kind.group, &kind.version, &kind.kind);
        schema.map(Schema::Builtin)
    }

    /// An object in the pipeline of `from` as clients of `to` see it.
    ///
    /// # Errors
    /// When one of them is not served, or a conversion webhook fails.
    pub async fn present(
        &self,
        from: &GroupVersionResource,
        object: &Value,
        to: &GroupVersionResource,
    ) -> ApiResult<Value> {
        let (source, target) = (self.needed(from)?, self.needed(to)?);
        let object = source.recast(object.clone(), &target).await?;
        Ok(target.row.serve(object))
    }

    /// An object of `to` that admission has changed, decoded and defaulted in that version.
    ///
    /// # Errors
    /// When its types do not fit.
    pub fn settle(&self, to: &GroupVersionResource, object: &Value) -> ApiResult<Value> {
        let row = self.needed(to)?.row;
        let schema = row.schema.root();
        let mut object = codec::normalize(object, &row.def.gvk(), schema)?;
        codec::default(&mut object, schema);
        if row.working == row.def.gvk() {
            row.hooks.default(&mut object);
        }
        Ok(object)
    }

    /// The way back of [`Self::present`]: a settled object of `to` in the pipeline of `from`.
    ///
    /// # Errors
    /// As there.
    pub async fn absorb(
        &self,
        from: &GroupVersionResource,
        mut object: Value,
        to: &GroupVersionResource,
    ) -> ApiResult<Value> {
        let (source, target) = (self.needed(from)?, self.needed(to)?);
        target.accept(&mut object);
        let mut object = target.recast(object, &source).await?;
        source.default(&mut object);
        Ok(object)
    }

    fn needed(&self, resource: &GroupVersionResource) -> ApiResult<Store> {
        self.store(resource).ok_or_else(|| {
            let GroupVersionResource { group, version, resource } = resource;
            ApiError::internal(format!(
                "unable to convert to {group}/{version}, Resource={resource}: unknown kind"
            ))
        })
    }
}

impl Store {
    /// An object in this row's working version in that of another row of the same objects.
    async fn recast(&self, mut object: Value, to: &Self) -> ApiResult<Value> {
        if self.row.working == to.row.working {
            return Ok(object);
        }
        if let Some(webhook) = &self.row.webhook {
            return webhook.one(object, &to.row.working.api_version()).await;
        }
        self.row.conversion.store(&mut object, &self.row.stored_version);
        to.row.conversion.load(&mut object, &to.row.working.api_version());
        Ok(object)
    }
}
