//! One kind as a row: its defaults, checks and flags. The row is the strategy.

use std::{borrow::Cow, cell::RefCell};

use copepod_api::{FieldErrors, names};
use jiff::Timestamp;
use serde_json::Value;

use super::at::At;
use super::defaults::{self, Object, Rule};
use crate::hooks::{HookContext, Hooks};

/// Prepares an object for creation.
pub(crate) type Prepare = fn(&HookContext<'_>, &mut Value);
/// Prepares an object for replacing another.
pub(crate) type PrepareChange = fn(&HookContext<'_>, &mut Value, &Value);

/// Finds what is wrong with a change from the second to the first.
pub(crate) type CheckChange = fn(&At<'_>, &At<'_>);

/// The strategy of one kind. Rows are statics made from [`Kind::PLAIN`].
#[derive(Debug)]
pub(crate) struct Kind {
    /// Functional defaults.
    pub(crate) defaults: &'static [Rule],
    /// Defaults that depend on the clock.
    pub(crate) defaults_now: fn(Timestamp, &mut Value),
    /// Whether create empties `status`.
    pub(crate) reset_status: bool,
    /// Further preparation of a create.
    pub(crate) prepare_create: Prepare,
    /// Further preparation of an update.
    pub(crate) prepare_update: PrepareChange,
    /// Further preparation of a status update.
    pub(crate) prepare_status: PrepareChange,
    /// What is wrong with a new object.
    pub(crate) validate: fn(&At<'_>),
    /// What is wrong with a change; `None` when only the new object matters.
    pub(crate) validate_update: Option<CheckChange>,
    /// What is wrong with a change through a subresource, when that is a matter of its own.
    pub(crate) validate_part: fn(&str) -> Option<CheckChange>,
    /// What is wrong with a status change.
    pub(crate) validate_status: CheckChange,
    /// What is wrong with a name.
    pub(crate) name: fn(&str) -> Vec<String>,
    /// Warnings.
    pub(crate) warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Whether PUT of a missing name creates it.
    pub(crate) create_on_update: bool,
    /// Whether an update without `resourceVersion` is accepted.
    pub(crate) unconditional_update: bool,
    /// Whether `metadata.generation` counts.
    pub(crate) generation: bool,
    /// Whether a change counts in `metadata.generation`.
    pub(crate) counts: fn(&Value, &Value) -> bool,
    /// The value of a selectable field that is no plain path.
    pub(crate) field: for<'a> fn(&'a Value, &str) -> Option<Cow<'a, str>>,
    /// Why an object of a name may not be deleted.
    pub(crate) undeletable: fn(&str) -> Option<&'static str>,
    /// The grace period of a deletion.
    pub(crate) grace: fn(&Value, Option<i64>) -> Option<i64>,
}

impl Kind {
    /// A kind with nothing of its own.
    pub(crate) const PLAIN: Self = Self {
        defaults: &[],
        defaults_now: |_, _| {},
        reset_status: false,
        prepare_create: |_, _| {},
        prepare_update: |_, _, _| {},
        prepare_status: |_, _, _| {},
        validate: |_| {},
        validate_update: None,
        validate_part: |_| None,
        validate_status: |_, _| {},
        name: names::dns1123_subdomain,
        warnings: |_, _| Vec::new(),
        create_on_update: false,
        unconditional_update: true,
        generation: false,
        counts: spec_differs,
        field: |_, _| None,
        undeletable: |_| None,
        grace: |_, _| None,
    };

    /// A kind with a spec whose changes count and a status that clients do not set.
    pub(crate) const WITH_STATUS: Self = Self { reset_status: true, generation: true, ..Self::PLAIN };
}

/// Whether the specs differ in meaning.
pub(crate) fn spec_differs(new: &Value, old: &Value) -> bool {
    !super::at::same(new.get("spec"), old.get("spec"))
}

/// Whether anything but metadata, type and status differs.
pub(crate) fn body_differs(new: &Value, old: &Value) -> bool {
    let body = |object: &Value| {
        let mut body = object.clone();
        if let Some(map) = body.as_object_mut() {
            for field in ["metadata", "apiVersion", "kind", "status"] {
                map.remove(field);
            }
        }
        body
    };
    !super::at::same(Some(&body(new)), Some(&body(old)))
}

impl Hooks for &'static Kind {
    fn default(&self, object: &mut Value) {
        if let Some(object) = object.as_object_mut() {
            let in_spec = |rule: &Rule| matches!(rule, Rule::In(["spec"], _));
            if self.defaults.iter().any(in_spec) {
                // Go has a spec whether it was given or not.
                defaults::map_mut(object, "spec");
            }
            defaults::apply(self.defaults, object);
        }
    }

    fn default_now(&self, now: Timestamp, object: &mut Value) {
        (self.defaults_now)(now, object);
    }

    fn prepare_create(&self, cx: &HookContext<'_>, new: &mut Value) {
        if self.reset_status
            && let Some(object) = new.as_object_mut()
        {
            object.insert("status".to_owned(), Object::new().into());
        }
        (self.prepare_create)(cx, new);
    }

    fn prepare_update(&self, cx: &HookContext<'_>, new: &mut Value, old: &Value) {
        (self.prepare_update)(cx, new, old);
    }

    fn prepare_status(&self, cx: &HookContext<'_>, new: &mut Value, old: &Value) {
        (self.prepare_status)(cx, new, old);
    }

    fn validate_create(&self, _cx: &HookContext<'_>, new: &Value) -> FieldErrors {
        collect(|sink| (self.validate)(&At::root(new, sink)))
    }

    fn validate_update(&self, cx: &HookContext<'_>, new: &Value, old: &Value) -> FieldErrors {
        let part = cx.subresource.and_then(self.validate_part);
        collect(|sink| match part.or(self.validate_update) {
            Some(check) => check(&At::root(new, sink), &At::root(old, sink)),
            None => (self.validate)(&At::root(new, sink)),
        })
    }

    fn validate_status(&self, _cx: &HookContext<'_>, new: &Value, old: &Value) -> FieldErrors {
        collect(|sink| (self.validate_status)(&At::root(new, sink), &At::root(old, sink)))
    }

    fn validate_name(&self, name: &str) -> Vec<String> {
        (self.name)(name)
    }

    fn warnings(&self, _cx: &HookContext<'_>, new: &Value, old: Option<&Value>) -> Vec<String> {
        (self.warnings)(new, old)
    }

    fn create_on_update(&self) -> bool {
        self.create_on_update
    }

    fn unconditional_update(&self) -> bool {
        self.unconditional_update
    }

    fn has_generation(&self) -> bool {
        self.generation
    }

    fn generation_changed(&self, new: &Value, old: &Value) -> bool {
        (self.counts)(new, old)
    }

    fn field<'a>(&self, object: &'a Value, field: &str) -> Option<Cow<'a, str>> {
        (self.field)(object, field)
    }

    fn undeletable(&self, name: &str) -> Option<&'static str> {
        (self.undeletable)(name)
    }

    fn grace_period(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        (self.grace)(object, requested)
    }
}

/// Runs checks and returns what they found.
pub(crate) fn collect(checks: impl FnOnce(&RefCell<FieldErrors>)) -> FieldErrors {
    let sink = RefCell::default();
    checks(&sink);
    sink.into_inner()
}

/// A status update that leaves labels, annotations, finalizers and owners alone, as `ResetObjectMetaForStatus` does.
pub(crate) fn keep_meta(new: &mut Value, old: &Value) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let kept = old.get("metadata").and_then(|m| m.get(field)).cloned();
        let metadata = copepod_api::meta::metadata_mut(new);
        match kept {
            Some(value) => drop(metadata.insert(field.to_owned(), value)),
            None => drop(metadata.remove(field)),
        }
    }
}
