//! The pipeline of a change.

use std::sync::Arc;

use copepod_api::{ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupVersionKind, meta};
use copepod_store::Entry;
use serde_json::Value;

use super::{Change, Context, Part, Prepared, options};
use crate::{
    admission::Operation,
    codec,
    hooks::HookContext,
    metadata,
    object::{Object, Written},
    ownership,
    request::RequestContext,
    store::{Commit, Store},
    subresource,
};

/// Attempts at a compare-and-swap before the conflict is the client's.
const ATTEMPTS: usize = 32;

/// The outcome of one attempt.
enum Attempt {
    Done(Object),
    Lost(Option<Arc<Entry>>),
}

impl Store {
    /// Runs a change until it is stored, refused, or lost too often.
    pub(crate) async fn change(&self, cx: &RequestContext, change: &Change<'_>) -> ApiResult<Written> {
        let target = change.target;
        let mut current = self.current(target.namespace.as_deref(), &target.name).await?;
        for _ in 0..ATTEMPTS {
            let Some(entry) = current else {
                return self.change_missing(cx, change).await;
            };
            match self.attempt(cx, change, &entry).await? {
                Attempt::Done(object) => return Ok(Written { object, created: false }),
                Attempt::Lost(now) => current = now,
            }
        }
        Err(ApiError::modified(&self.resource(), &target.name))
    }

    /// Runs a change that no strategy and no admission sees: the server's own, after its own checks.
    pub(crate) async fn change_stored(&self, cx: &RequestContext, change: &Change<'_>) -> ApiResult<Written> {
        let target = change.target;
        let mut current = self.current(target.namespace.as_deref(), &target.name).await?;
        for _ in 0..ATTEMPTS {
            let entry = current.ok_or_else(|| self.not_found(&target.name))?;
            let new = (change.make)(Some(&self.load(&entry).await?))?;
            match self.commit(cx, entry.key(), &new, entry.revision()).await? {
                Commit::Done(written) => {
                    return Ok(Written {
                        object: self.answer_object(cx, &written, &new).await?,
                        created: false,
                    });
                }
                Commit::Lost(now) => current = now,
            }
        }
        Err(ApiError::modified(&self.resource(), &target.name))
    }

    async fn change_missing(&self, cx: &RequestContext, change: &Change<'_>) -> ApiResult<Written> {
        if !change.create {
            return Err(self.not_found(&change.target.name));
        }
        let object = (change.make)(None)?;
        let object = self.create_owned(cx, change.target, object, change.owned).await?;
        Ok(Written { object, created: true })
    }

    async fn attempt(
        &self,
        cx: &RequestContext,
        change: &Change<'_>,
        entry: &Arc<Entry>,
    ) -> ApiResult<Attempt> {
        let old = self.load(entry).await?;
        let mut new = (change.make)(Some(&old))?;
        self.check_version(&change.target.name, &mut new, &old)?;
        let options = options(cx, "UpdateOptions");
        let name = change.target.name.as_str();
        let context = Context {
            operation: Operation::Update,
            target: change.target,
            name,
            options: &options,
            part: change.part,
        };
        if change.part == Part::Whole {
            self.row.hooks.default_now(cx.now, &mut new);
        }
        if !change.owned {
            ownership::update(cx, &self.row, Some(&old), &mut new, change.part.name());
        }
        self.mutate(cx, &context, Some(&old), &mut new).await?;
        metadata::match_namespace(&mut new, change.target.namespace.as_deref())?;
        new = self.merge(change.part, new, &old);
        let transaction =
            if change.part == Part::Whole { self.allocate(cx, Some(&old), &mut new).await? } else { None };
        let mut prepared = Prepared { object: new, transaction };
        let result = match self.check_change(cx, &context, &mut prepared.object, &old).await {
            Ok(()) => self.store_change(cx, entry, &prepared.object, &old).await,
            Err(error) => Err(error),
        };
        let done = matches!(result, Ok(Attempt::Done(_))) && !cx.dry_run;
        prepared.settle(done).await;
        result
    }

    /// The version the client saw must be the current one, if it names any.
    fn check_version(&self, name: &str, new: &mut Value, old: &Value) -> ApiResult<()> {
        let current = meta::resource_version(old).to_owned();
        match meta::resource_version(new) {
            "" | "0" if self.row.hooks.unconditional_update() => {
                meta::metadata_mut(new).insert("resourceVersion".to_owned(), current.into());
                Ok(())
            }
            "" | "0" => {
                let field = FieldPath::new("metadata").child("resourceVersion");
                let errors: FieldErrors =
                    vec![FieldError::invalid(&field, 0, "must be specified for an update")];
                let resource = self.resource();
                let gvk = GroupVersionKind::new(&resource.group, "", &resource.resource);
                Err(ApiError::invalid(&gvk, name, &errors))
            }
            version if version == current => Ok(()),
            _ => Err(ApiError::modified(&self.resource(), name)),
        }
    }

    /// What the part does not cover stays as it was.
    fn merge(&self, part: Part, new: Value, old: &Value) -> Value {
        let keeps_metadata = ownership::status_keeps_metadata(&self.row);
        match part {
            Part::Whole if self.row.has_status() => with(new, "status", old.get("status")),
            Part::Whole => new,
            Part::Status => {
                let mut merged = with(old.clone(), "status", new.get("status"));
                if keeps_metadata {
                    let managed = new.get("metadata").and_then(|m| m.get("managedFields")).cloned();
                    metadata::set(meta::metadata_mut(&mut merged), "managedFields", managed);
                } else {
                    merged = with(merged, "metadata", new.get("metadata"));
                }
                merged
            }
            Part::Sub(name) => subresource::merge(name, new, old),
        }
    }

    async fn check_change(
        &self,
        cx: &RequestContext,
        context: &Context<'_>,
        new: &mut Value,
        old: &Value,
    ) -> ApiResult<()> {
        let row = &self.row;
        let hook = HookContext { user: &cx.user, subresource: context.part.name(), now: cx.now };
        metadata::keep_identity(new, old);
        let status = context.part == Part::Status || context.part == Part::Sub("approval");
        if status {
            row.hooks.prepare_status(&hook, new, old);
        } else {
            row.hooks.prepare_update(&hook, new, old);
            if row.hooks.has_generation()
                && meta::generation(new) == meta::generation(old)
                && row.hooks.generation_changed(new, old)
            {
                meta::metadata_mut(new).insert("generation".to_owned(), (meta::generation(old) + 1).into());
            }
        }
        codec::canonical(new, &row.working_schema);
        ownership::keep_times(new, old);
        let mut errors = metadata::validate(new, row.def.namespaced(), |name| row.hooks.validate_name(name));
        errors.extend(metadata::plain_finalizers(new, &row.def));
        errors.extend(metadata::validate_update(new, old));
        errors.extend(self.check_schema(cx, new, Some(old), context.part));
        errors.extend(if status {
            row.hooks.validate_status(&hook, new, old)
        } else {
            row.hooks.validate_update(&hook, new, old)
        });
        self.refuse(new, &errors)?;
        if !status {
            for warning in row.hooks.warnings(&hook, new, Some(old)) {
                cx.warnings.add(warning);
            }
        }
        let attributes = self.attributes(cx, context, Some(old));
        cx.admission.validate(&attributes.get(), Some(new)).await?;
        // What is stored is read with its defaults.
        row.hooks.default(new);
        Ok(())
    }

    /// Stores, or deletes when the last finalizer of an object that is being deleted went.
    async fn store_change(
        &self,
        cx: &RequestContext,
        entry: &Arc<Entry>,
        new: &Value,
        old: &Value,
    ) -> ApiResult<Attempt> {
        if goes_with(self, new, old) {
            return Ok(match self.remove(cx, entry.key(), entry.revision()).await? {
                Ok(_) => {
                    self.release(cx, old).await;
                    Attempt::Done(Object::served(&self.row, self.row.serve(new.clone())))
                }
                Err(now) => Attempt::Lost(now),
            });
        }
        let bytes = self.encode(new).await?;
        if bytes == entry.stored() {
            let entry = self.converted_one(entry).await?;
            return Ok(Attempt::Done(Object::stored(&self.row, &entry, entry.revision())?));
        }
        Ok(match self.commit_bytes(cx, entry.key(), bytes, entry.revision()).await? {
            Commit::Done(written) => Attempt::Done(self.answer_object(cx, &written, new).await?),
            Commit::Lost(now) => Attempt::Lost(now),
        })
    }
}

fn with(mut object: Value, field: &str, value: Option<&Value>) -> Value {
    if let Some(map) = object.as_object_mut() {
        metadata::set(map, field, value.cloned());
    }
    object
}

/// Whether storing `new` means that the object goes.
fn goes_with(store: &Store, new: &Value, old: &Value) -> bool {
    let grace = old.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    let finalized = meta::finalizers(new).is_empty() && subresource::namespace_finalized(&store.row.def, new);
    finalized && meta::deletion_timestamp(old).is_some() && grace == 0
}
