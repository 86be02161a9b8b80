//! The pipeline of a new object.

use copepod_api::{ApiError, ApiResult, meta};
use copepod_store::Entry;
use serde_json::Value;

use super::{Context, Part, Prepared, options};
use crate::{
    codec,
    hooks::HookContext,
    metadata,
    object::Object,
    ownership,
    request::{RequestContext, Target},
    store::{Commit, Store},
};

/// Attempts at a free generated name.
const NAMES: usize = 8;

impl Store {
    /// Creates an object that has been decoded, defaulted and brought to the working version.
    pub(crate) async fn create_value(
        &self,
        cx: &RequestContext,
        target: &Target,
        object: Value,
    ) -> ApiResult<Object> {
        self.create_owned(cx, target, object, false).await
    }

    /// The same; `owned` when managed fields are there already.
    pub(super) async fn create_owned(
        &self,
        cx: &RequestContext,
        target: &Target,
        object: Value,
        owned: bool,
    ) -> ApiResult<Object> {
        let object = self.admit_new(cx, target, object, owned).await?;
        let mut attempts = if meta::name(&object).is_empty() { NAMES } else { 1 };
        loop {
            attempts -= 1;
            let mut new = object.clone();
            metadata::fill_new(&mut new, cx.now);
            let generated = name_it(&mut new);
            let prepared = self.prepare_new(cx, target, new).await?;
            let name = meta::name(&prepared.object).to_owned();
            let key = self.key(target.namespace.as_deref(), &name);
            let commit = self.commit(cx, &key, &prepared.object, 0).await;
            match commit {
                Ok(Commit::Done(entry)) => {
                    let object = self.answer_object(cx, &entry, &prepared.object).await;
                    prepared.settle(!cx.dry_run).await;
                    return object;
                }
                Ok(Commit::Lost(_)) if generated && attempts > 0 => prepared.settle(false).await,
                Ok(Commit::Lost(current)) => {
                    prepared.settle(false).await;
                    return Err(self.exists(&name, generated, current.as_deref()));
                }
                Err(error) => {
                    prepared.settle(false).await;
                    return Err(error);
                }
            }
        }
    }

    fn exists(&self, name: &str, generated: bool, current: Option<&Entry>) -> ApiError {
        let resource = self.resource();
        let mut error = ApiError::already_exists(&resource, name);
        if generated {
            let text = format!(
                "{resource} {name:?} already exists, the server was not able to generate a unique name for the object"
            );
            error.status_mut().message = text;
            return error.with_retry_after(1);
        }
        let deleting = current.and_then(Entry::value).is_some_and(|v| meta::deletion_timestamp(&v).is_some());
        if deleting {
            let text = format!("object is being deleted: {}", error.status().message);
            error.status_mut().message = text;
        }
        error
    }

    /// Mutating admission of a new object, which has neither identity nor a generated name yet.
    async fn admit_new(
        &self,
        cx: &RequestContext,
        target: &Target,
        mut new: Value,
        owned: bool,
    ) -> ApiResult<Value> {
        metadata::match_namespace(&mut new, target.namespace.as_deref())?;
        metadata::wipe(&mut new);
        self.row.hooks.default_now(cx.now, &mut new);
        if !owned {
            ownership::update(cx, &self.row, None, &mut new, None);
        }
        let options = options(cx, "CreateOptions");
        let name = meta::name(&new).to_owned();
        let context = Context::of_new(target, &name, &options);
        self.mutate(cx, &context, None, &mut new).await?;
        Ok(new)
    }

    /// Allocation, preparation, validation of a new object.
    async fn prepare_new(&self, cx: &RequestContext, target: &Target, mut new: Value) -> ApiResult<Prepared> {
        let options = options(cx, "CreateOptions");
        let name = meta::name(&new).to_owned();
        let context = Context::of_new(target, &name, &options);
        let transaction = self.allocate(cx, None, &mut new).await?;
        let mut prepared = Prepared { object: new, transaction };
        let checked = self.check_new(cx, &context, &mut prepared.object).await;
        match checked {
            Ok(()) => Ok(prepared),
            Err(error) => {
                prepared.settle(false).await;
                Err(error)
            }
        }
    }

    async fn check_new(&self, cx: &RequestContext, context: &Context<'_>, new: &mut Value) -> ApiResult<()> {
        let row = &self.row;
        let hook = HookContext { user: &cx.user, subresource: None, now: cx.now };
        if row.hooks.has_generation() {
            meta::metadata_mut(new).insert("generation".to_owned(), 1.into());
        }
        row.hooks.prepare_create(&hook, new);
        codec::canonical(new, &row.working_schema);
        let mut errors = metadata::validate(new, row.def.namespaced(), |name| row.hooks.validate_name(name));
        errors.extend(metadata::plain_finalizers(new, &row.def));
        errors.extend(self.check_schema(cx, new, None, Part::Whole));
        errors.extend(row.hooks.validate_create(&hook, new));
        self.refuse(new, &errors)?;
        for warning in row.hooks.warnings(&hook, new, None) {
            cx.warnings.add(warning);
        }
        let attributes = self.attributes(cx, context, None);
        cx.admission.validate(&attributes.get(), Some(new)).await?;
        // What is stored is read with its defaults.
        row.hooks.default(new);
        Ok(())
    }
}

/// Sets a generated name; whether it did.
fn name_it(object: &mut Value) -> bool {
    if !meta::name(object).is_empty() {
        return false;
    }
    let metadata = meta::metadata_mut(object);
    let Some(prefix) = metadata.get("generateName").and_then(Value::as_str).filter(|p| !p.is_empty()) else {
        return false;
    };
    let name = metadata::generate_name(prefix);
    metadata.insert("name".to_owned(), name.into());
    true
}
