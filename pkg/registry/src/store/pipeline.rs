//! The one write pipeline, in upstream's order.

use std::sync::Arc;

use copepod_api::{ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupVersionKind, Reason, meta};
use copepod_store::Entry;
use serde_json::{Map, Value};

use super::{Commit, Store};
use crate::{
    admission::{Attributes, Operation},
    allocation::Transaction,
    codec, metadata,
    hooks::HookContext,
    object::{Object, Written},
    ownership,
    request::{RequestContext, Target},
    row::Schema,
    subresource,
};

/// Attempts at a free generated name.
const NAMES: usize = 8;
/// Attempts at a compare-and-swap before the conflict is the client's.
const ATTEMPTS: usize = 32;

/// Which part of an object a change may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but status.
    Whole,
    /// `status`.
    Status,
    /// What another subresource covers; see [`subresource::merge`].
    Sub(&'static str),
}

impl Part {
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::Status => Some("status"),
            Self::Sub(name) => Some(name),
        }
    }
}

/// A change of one object.
pub(crate) struct Change<'a> {
    pub(crate) target: &'a Target,
    pub(crate) part: Part,
    /// Makes the new object from the current one; may run several times.
    pub(crate) make: &'a (dyn Fn(Option<&Value>) -> ApiResult<Value> + Send + Sync),
    /// Whether a missing object is created.
    pub(crate) create: bool,
    /// Whether managed fields are kept by the caller (apply has done so).
    pub(crate) owned: bool,
}

/// What a validated new object still needs: its allocations confirmed or undone.
pub(super) struct Prepared {
    pub(super) object: Value,
    pub(super) transaction: Option<Box<dyn Transaction>>,
}

impl Prepared {
    /// Ends the allocations by the outcome.
    pub(super) async fn settle(self, done: bool) {
        if let Some(transaction) = self.transaction {
            if done { transaction.commit().await } else { transaction.rollback().await }
        }
    }
}

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
    async fn create_owned(
        &self,
        cx: &RequestContext,
        target: &Target,
        object: Value,
        owned: bool,
    ) -> ApiResult<Object> {
        let mut attempts = if meta::name(&object).is_empty() { NAMES } else { 1 };
        loop {
            attempts -= 1;
            let mut new = object.clone();
            metadata::match_namespace(&mut new, target.namespace.as_deref())?;
            metadata::fill_new(&mut new, cx.now);
            let generated = name_it(&mut new);
            if !owned {
                ownership::update(cx, &self.row, None, &mut new, None);
            }
            let prepared = self.prepare_new(cx, target, new).await?;
            let name = meta::name(&prepared.object).to_owned();
            let key = self.key(target.namespace.as_deref(), &name);
            let commit = self.commit(cx, &key, &prepared.object, 0).await;
            match commit {
                Ok(Commit::Done(entry)) => {
                    let object = self.answer_object(cx, &entry, &prepared.object);
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
            let text = format!("{resource} {name:?} already exists, the server was not able to generate a unique name for the object");
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

    /// Admission, defaults, allocation, preparation, validation of a new object.
    async fn prepare_new(&self, cx: &RequestContext, target: &Target, mut new: Value) -> ApiResult<Prepared> {
        let options = options(cx, "CreateOptions");
        let name = meta::name(&new).to_owned();
        let context = Context { operation: Operation::Create, target, name: &name, options: &options, part: Part::Whole };
        self.mutate(cx, &context, None, &mut new).await?;
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
        row.hooks.prepare_create(&hook, new);
        if row.hooks.has_generation() {
            meta::metadata_mut(new).insert("generation".to_owned(), 1.into());
        }
        let mut errors = metadata::validate(new, row.def.namespaced(), |name| row.hooks.validate_name(name));
        errors.extend(self.check_schema(new));
        errors.extend(row.hooks.validate_create(&hook, new));
        self.refuse(new, &errors)?;
        for warning in row.hooks.warnings(&hook, new, None) {
            cx.warnings.add(warning);
        }
        let attributes = self.attributes(cx, context, None);
        cx.admission.validate(&attributes.get(), Some(new)).await
    }

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
            let new = (change.make)(Some(&self.row.load(&entry)?))?;
            match self.commit(cx, entry.key(), &new, entry.revision()).await? {
                Commit::Done(written) => {
                    return Ok(Written { object: self.answer_object(cx, &written, &new)?, created: false });
                }
                Commit::Lost(now) => current = now,
            }
        }
        Err(ApiError::modified(&self.resource(), &target.name))
    }

    /// Admission of a body posted to a subresource.
    pub(crate) async fn admit_post(
        &self,
        cx: &RequestContext,
        target: &Target,
        kind: &GroupVersionKind,
        body: &mut Value,
    ) -> ApiResult<()> {
        let options = options(cx, "CreateOptions");
        let resource = self.row.def.gvr();
        let attributes = Attributes {
            operation: Operation::Create,
            kind,
            resource: &resource,
            subresource: target.subresource.as_deref().unwrap_or_default(),
            namespace: target.namespace.as_deref().unwrap_or_default(),
            name: &target.name,
            old: None,
            user: &cx.user,
            dry_run: cx.dry_run,
            options: &options,
            warnings: &cx.warnings,
        };
        cx.admission.mutate(&attributes, body).await?;
        cx.admission.validate(&attributes, Some(body)).await
    }

    async fn change_missing(&self, cx: &RequestContext, change: &Change<'_>) -> ApiResult<Written> {
        if !change.create {
            return Err(self.not_found(&change.target.name));
        }
        let object = (change.make)(None)?;
        if !meta::uid(&object).is_empty() && !meta::resource_version(&object).is_empty() {
            return Err(self.not_found(&change.target.name));
        }
        let object = self.create_owned(cx, change.target, object, change.owned).await?;
        Ok(Written { object, created: true })
    }

    async fn attempt(&self, cx: &RequestContext, change: &Change<'_>, entry: &Arc<Entry>) -> ApiResult<Attempt> {
        let old = self.row.load(entry)?;
        let mut new = (change.make)(Some(&old))?;
        self.check_version(&change.target.name, &mut new, &old)?;
        let options = options(cx, "UpdateOptions");
        let name = change.target.name.as_str();
        let context = Context { operation: Operation::Update, target: change.target, name, options: &options, part: change.part };
        if !change.owned {
            ownership::update(cx, &self.row, Some(&old), &mut new, change.part.name());
        }
        self.mutate(cx, &context, Some(&old), &mut new).await?;
        metadata::match_namespace(&mut new, change.target.namespace.as_deref())?;
        new = self.merge(change.part, new, &old);
        let transaction = if change.part == Part::Whole { self.allocate(cx, Some(&old), &mut new).await? } else { None };
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
                let errors: FieldErrors = vec![FieldError::invalid(&field, 0, "must be specified for an update")];
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
        let custom = self.row.def.custom;
        match part {
            Part::Whole if self.row.has_status() => with(new, "status", old.get("status")),
            Part::Whole => new,
            Part::Status => {
                let mut merged = with(old.clone(), "status", new.get("status"));
                if custom {
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
        ownership::keep_times(new, old);
        let mut errors = metadata::validate(new, row.def.namespaced(), |name| row.hooks.validate_name(name));
        errors.extend(metadata::validate_update(new, old));
        errors.extend(self.check_schema(new));
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
        cx.admission.validate(&attributes.get(), Some(new)).await
    }

    /// Stores, or deletes when the last finalizer of an object that is being deleted went.
    async fn store_change(&self, cx: &RequestContext, entry: &Arc<Entry>, new: &Value, old: &Value) -> ApiResult<Attempt> {
        if goes_with(self, new, old) {
            return Ok(match self.remove(cx, entry.key(), entry.revision()).await? {
                Ok(_) => {
                    self.release(cx, old).await;
                    Attempt::Done(Object::served(&self.row, self.row.serve(new.clone())))
                }
                Err(now) => Attempt::Lost(now),
            });
        }
        if self.row.store(new) == entry.stored().as_ref() {
            return Ok(Attempt::Done(Object::stored(&self.row, entry, entry.revision())?));
        }
        Ok(match self.commit(cx, entry.key(), new, entry.revision()).await? {
            Commit::Done(written) => Attempt::Done(self.answer_object(cx, &written, new)?),
            Commit::Lost(now) => Attempt::Lost(now),
        })
    }

    /// The answer to a write.
    pub(super) fn answer_object(&self, cx: &RequestContext, entry: &Arc<Entry>, object: &Value) -> ApiResult<Object> {
        if cx.dry_run && entry.revision() == 0 {
            // Nothing was stored, so there is no version.
            return Ok(Object::served(&self.row, self.row.serve(object.clone())));
        }
        Object::stored(&self.row, entry, entry.revision())
    }

    /// Mutating admission, and defaults for what it added.
    async fn mutate(
        &self,
        cx: &RequestContext,
        context: &Context<'_>,
        old: Option<&Value>,
        new: &mut Value,
    ) -> ApiResult<()> {
        if cx.admission.is_empty() {
            return Ok(());
        }
        let before = new.clone();
        let attributes = self.attributes(cx, context, old);
        cx.admission.mutate(&attributes.get(), new).await?;
        if *new != before {
            let row = &self.row;
            *new = codec::normalize(new, &row.working, row.working_schema.root())?;
            self.default(new);
        }
        Ok(())
    }

    /// Defaults of the working version.
    pub(crate) fn default(&self, object: &mut Value) {
        codec::default(object, self.row.working_schema.root());
        self.row.hooks.default(object);
    }

    async fn allocate(
        &self,
        cx: &RequestContext,
        old: Option<&Value>,
        new: &mut Value,
    ) -> ApiResult<Option<Box<dyn Transaction>>> {
        match &self.row.allocation {
            Some(allocation) => allocation.begin(cx, old, new).await.map(Some),
            None => Ok(None),
        }
    }

    /// Gives back what a deleted object had allocated.
    pub(super) async fn release(&self, cx: &RequestContext, old: &Value) {
        if let Some(allocation) = self.row.allocation.as_ref().filter(|_| !cx.dry_run) {
            allocation.release(old).await;
        }
    }

    /// Structure, for custom resources; built-in kinds are checked when decoded.
    fn check_schema(&self, object: &Value) -> FieldErrors {
        match &self.row.working_schema {
            Schema::Builtin(_) => FieldErrors::new(),
            Schema::Custom(_) => {
                copepod_schema::validate::validate(object, self.row.working_schema.root(), &FieldPath::root())
            }
        }
    }

    fn refuse(&self, object: &Value, errors: &FieldErrors) -> ApiResult<()> {
        if errors.is_empty() {
            return Ok(());
        }
        let mut unique = FieldErrors::new();
        for error in errors {
            if !unique.contains(error) {
                unique.push(error.clone());
            }
        }
        Err(ApiError::invalid(&self.row.working, meta::name(object), &unique))
    }

    fn attributes<'a>(&self, cx: &'a RequestContext, context: &'a Context<'a>, old: Option<&'a Value>) -> Owned<'a> {
        Owned { kind: self.row.working.clone(), resource: self.row.def.gvr(), cx, context, old }
    }
}

/// The outcome of one attempt.
pub(super) enum Attempt {
    Done(Object),
    Lost(Option<Arc<Entry>>),
}

/// What admission sees beside the objects.
pub(super) struct Context<'a> {
    pub(super) operation: Operation,
    pub(super) target: &'a Target,
    pub(super) name: &'a str,
    pub(super) options: &'a Value,
    pub(super) part: Part,
}

/// Attributes with what they borrow.
struct Owned<'a> {
    kind: GroupVersionKind,
    resource: copepod_api::GroupVersionResource,
    cx: &'a RequestContext,
    context: &'a Context<'a>,
    old: Option<&'a Value>,
}

impl Owned<'_> {
    fn get(&self) -> Attributes<'_> {
        Attributes {
            operation: self.context.operation,
            kind: &self.kind,
            resource: &self.resource,
            subresource: self.context.part.name().unwrap_or_default(),
            namespace: self.context.target.namespace.as_deref().unwrap_or_default(),
            name: self.context.name,
            old: self.old,
            user: &self.cx.user,
            dry_run: self.cx.dry_run,
            options: self.context.options,
            warnings: &self.cx.warnings,
        }
    }
}

/// The options of a request as admission sees them.
pub(super) fn options(cx: &RequestContext, kind: &str) -> Value {
    let mut options = Map::new();
    options.insert("kind".to_owned(), kind.into());
    options.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
    if cx.dry_run {
        options.insert("dryRun".to_owned(), vec![Value::from("All")].into());
    }
    if !cx.field_manager.is_empty() {
        options.insert("fieldManager".to_owned(), cx.field_manager.clone().into());
    }
    Value::Object(options)
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

/// Whether an error is a lost race that the store may try again.
pub(super) fn is_conflict(error: &ApiError) -> bool {
    error.is(Reason::Conflict)
}
