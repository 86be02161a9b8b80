//! The one write pipeline, in upstream's order.

use std::sync::Arc;

use copepod_api::{
    ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupVersionKind, Reason, field::ErrorType, meta,
};
use copepod_store::Entry;
use serde_json::{Map, Value};

use super::Store;
use crate::{
    admission::{Attributes, Operation},
    allocation::Transaction,
    codec, metadata,
    object::Object,
    request::{RequestContext, Target},
    row::Schema,
};

mod change;
mod create;

/// Which part of an object a change may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but status.
    Whole,
    /// `status`.
    Status,
    /// What another subresource covers; see [`crate::subresource::merge`].
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
            reinvocation: None,
        };
        cx.admission.mutate(&attributes, body).await?;
        cx.admission.validate(&attributes, Some(body)).await
    }

    /// The answer to a write.
    pub(super) async fn answer_object(
        &self,
        cx: &RequestContext,
        entry: &Arc<Entry>,
        object: &Value,
    ) -> ApiResult<Object> {
        if cx.dry_run && entry.revision() == 0 {
            // Nothing was stored, so there is no version.
            return Ok(Object::served(&self.row, self.row.serve(object.clone())));
        }
        let entry = self.converted_one(entry).await?;
        Object::stored(&self.row, &entry, entry.revision())
    }

    /// Mutating admission, and defaults for what it added.
    async fn mutate(
        &self,
        cx: &RequestContext,
        context: &Context<'_>,
        old: Option<&Value>,
        new: &mut Value,
    ) -> ApiResult<()> {
        self.admit_mutation(cx, context, old, new).await?;
        metadata::dedup_owners(new, &cx.warnings, " after mutating admission happens");
        Ok(())
    }

    async fn admit_mutation(
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

    /// Structure, for custom resources; built-in kinds are checked when decoded. What an update left as it was is
    /// not judged again.
    fn check_schema(
        &self,
        cx: &RequestContext,
        object: &Value,
        old: Option<&Value>,
        part: Part,
    ) -> FieldErrors {
        let schema = self.row.working_schema.root();
        let mut errors = match (&self.row.working_schema, old) {
            (Schema::Builtin(_), _) => FieldErrors::new(),
            (Schema::Custom(_), None) => {
                copepod_schema::validate::validate(object, schema, &FieldPath::root())
            }
            (Schema::Custom(_), Some(old)) if part == Part::Status => {
                let path = FieldPath::new("status");
                match (object.get("status"), schema.child("status")) {
                    (Some(new), Some(schema)) => {
                        let old = old.get("status").unwrap_or(&Value::Null);
                        copepod_schema::validate::validate_update(new, old, schema, &path)
                    }
                    _ => FieldErrors::new(),
                }
            }
            (Schema::Custom(_), Some(old)) => {
                copepod_schema::validate::validate_update(object, old, schema, &FieldPath::root())
            }
        };
        if self.row.def.custom && part != Part::Status {
            errors.extend(crate::crd::embedded::validate(object, schema));
        }
        if let Some(rules) = &self.row.rules {
            self.check_rules(cx, rules, (object, old), &mut errors);
        }
        errors
    }

    /// The rules of a custom resource, unless its structure is such that they cannot be asked.
    fn check_rules(
        &self,
        cx: &RequestContext,
        rules: &copepod_cel::rules::Rules,
        (object, old): (&Value, Option<&Value>),
        errors: &mut FieldErrors,
    ) {
        if errors.iter().any(blocks_rules) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(FieldError::invalid(&FieldPath::root(), Value::Null, why));
            return;
        }
        let judgement = rules.validate(object, old);
        errors.extend(judgement.errors);
        judgement.warnings.into_iter().for_each(|warning| cx.warnings.add(warning));
    }

    fn refuse(&self, object: &Value, errors: &FieldErrors) -> ApiResult<()> {
        if errors.is_empty() {
            return Ok(());
        }
        let mut unique = FieldErrors::new();
        for error in errors {
            if !unique.contains(error) {
                unique.push(codec::shown_in_order(error, self.row.working_schema.root()));
            }
        }
        Err(ApiError::invalid(&self.row.named_in_errors(), meta::name(object), &unique))
    }

    fn attributes<'a>(
        &self,
        cx: &'a RequestContext,
        context: &'a Context<'a>,
        old: Option<&'a Value>,
    ) -> Owned<'a> {
        Owned { kind: self.row.working.clone(), resource: self.row.def.gvr(), cx, context, old }
    }
}

/// Whether an error means that rules may be about values that are not what they are declared to be.
fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.kind,
        ErrorType::NotSupported
            | ErrorType::Required
            | ErrorType::TooLong
            | ErrorType::TooMany
            | ErrorType::TypeInvalid
    )
}

/// What admission sees beside the objects.
pub(super) struct Context<'a> {
    pub(super) operation: Operation,
    pub(super) target: &'a Target,
    pub(super) name: &'a str,
    pub(super) options: &'a Value,
    pub(super) part: Part,
}

impl<'a> Context<'a> {
    /// The creation of `name`.
    fn of_new(target: &'a Target, name: &'a str, options: &'a Value) -> Self {
        Self { operation: Operation::Create, target, name, options, part: Part::Whole }
    }
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
            reinvocation: None,
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

/// Whether an error is a lost race that the store may try again.
pub(super) fn is_conflict(error: &ApiError) -> bool {
    error.is(Reason::Conflict)
}
