//! Validation rules of custom resources: `x-kubernetes-validations`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use copepod_api::{FieldError, FieldErrors, FieldPath};
use copepod_schema::{
    SchemaRef, SchemaSet,
    node::{ListType, NodeId},
};
use serde_json::Value;

use crate::{
    BUDGET, Env, Program, Type, compile,
    schema::{Schemas, View},
};

mod evaluate;
mod path;

pub use path::valid_path;

/// One rule, compiled.
#[derive(Debug)]
pub struct Rule {
    /// The condition; `None` for an empty rule.
    program: Option<Result<Program, String>>,
    message: Option<Result<Program, String>>,
    /// As written.
    written: Value,
    uses_old: bool,
    optional_old: bool,
    /// Below the value, where an error is reported.
    field: Option<FieldPath>,
}

/// What is wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleError {
    /// The rule itself.
    Rule(String),
    /// Its `messageExpression`.
    Message(String),
    /// `optionalOldSelf` without use of `oldSelf`.
    OptionalOldSelf,
}

fn text<'v>(rule: &'v Value, field: &str) -> &'v str {
    rule.get(field).and_then(Value::as_str).unwrap_or_default()
}

impl Rule {
    fn compile(rule: &Value, own: &Type, schema: SchemaRef<'_>) -> Self {
        let optional_old = rule.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false);
        let old = if optional_old { Type::optional(own.clone()) } else { own.clone() };
        let env = Env::new().with("self", own.clone()).with("oldSelf", old);
        let condition = text(rule, "rule");
        let program = (!condition.trim().is_empty()).then(|| {
            let program = compile(condition, &env, &[Type::Dyn])?;
            let bool = *program.output() == Type::Bool;
            if bool { Ok(program) } else { Err("cel expression must evaluate to a bool".to_owned()) }
        });
        let composed = text(rule, "messageExpression");
        let message = (!composed.is_empty() && matches!(program, Some(Ok(_)))).then(|| {
            let program =
                compile(composed, &env, &[Type::Dyn]).map_err(|why| format!("messageExpression {why}"))?;
            let string = *program.output() == Type::String;
            if string { Ok(program) } else { Err("messageExpression must evaluate to a string".to_owned()) }
        });
        let field = Some(text(rule, "fieldPath")).filter(|path| !path.is_empty());
        Self {
            uses_old: matches!(&program, Some(Ok(program)) if program.uses("oldSelf")),
            optional_old,
            field: field.and_then(|path| valid_path(path, schema).ok()),
            written: rule.clone(),
            program,
            message,
        }
    }

    /// What keeps the rule from being accepted.
    #[must_use]
    pub fn errors(&self) -> Vec<RuleError> {
        let mut errors = Vec::new();
        if let Some(Err(why)) = &self.program {
            errors.push(RuleError::Rule(why.clone()));
        }
        if let Some(Err(why)) = &self.message {
            errors.push(RuleError::Message(why.clone()));
        }
        if !self.uses_old && self.written.get("optionalOldSelf").is_some_and(|v| !v.is_null()) {
            errors.push(RuleError::OptionalOldSelf);
        }
        errors
    }

    /// Whether it compares with the object before.
    #[must_use]
    pub fn uses_old(&self) -> bool {
        self.uses_old
    }
}

/// The rules of one version of a custom resource, each compiled when an object first has a value it is about.
#[derive(Debug)]
pub struct Rules {
    set: Arc<SchemaSet>,
    compiled: Mutex<HashMap<NodeId, Arc<[Rule]>>>,
}

/// What rules say of an object.
#[derive(Debug, Default)]
pub struct Judgement {
    /// What is wrong.
    pub errors: FieldErrors,
    /// What is wrong, but was so before.
    pub warnings: Vec<String>,
}

impl Rules {
    /// The rules of a schema; `None` when it has none.
    #[must_use]
    pub fn of(set: &Arc<SchemaSet>) -> Option<Self> {
        let found = set.root().is_some_and(has_rules);
        found.then(|| Self { set: Arc::clone(set), compiled: Mutex::default() })
    }

    /// The compiled rules of a node.
    #[must_use]
    pub fn at(&self, node: NodeId) -> Arc<[Rule]> {
        let known = |rules: &HashMap<NodeId, Arc<[Rule]>>| rules.get(&node).map(Arc::clone);
        if let Some(rules) = known(&self.compiled.lock().unwrap_or_else(PoisonError::into_inner)) {
            return rules;
        }
        let schema = self.set.at(node);
        let view = View::rules(Schemas::Custom(Arc::clone(&self.set)));
        let own = view.of(node, "self").unwrap_or(Type::Dyn);
        let written = schema.rules().map(|rules| rules.validations.as_slice()).unwrap_or_default();
        let rules: Arc<[Rule]> = written.iter().map(|rule| Rule::compile(rule, &own, schema)).collect();
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner).insert(node, Arc::clone(&rules));
        rules
    }

    /// Judges an object, beside what it was before.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Judgement {
        let mut walk = Walk { rules: self, budget: BUDGET, spent: false, judgement: Judgement::default() };
        if let Some(root) = self.set.root() {
            let place = Place { value: object, old, unchanged: old.is_some_and(|old| old == object) };
            walk.node(place, root, &FieldPath::root());
        }
        walk.judgement
    }
}

fn has_rules(schema: SchemaRef<'_>) -> bool {
    schema.rules().is_some_and(|rules| !rules.validations.is_empty())
        || schema.fields().any(|field| !field.schema().is_typed() && has_rules(field.schema()))
        || schema.items().is_some_and(has_rules)
        || schema.additional().is_some_and(has_rules)
}

/// A value, what it was before, and whether it, or the nearest part that can be found again, is as before.
#[derive(Clone, Copy)]
struct Place<'v> {
    value: &'v Value,
    old: Option<&'v Value>,
    unchanged: bool,
}

impl<'v> Place<'v> {
    fn child(self, value: &'v Value, old: Option<&'v Value>) -> Self {
        Self { value, old, unchanged: old.map_or(self.unchanged, |old| old == value) }
    }
}

struct Walk<'r> {
    rules: &'r Rules,
    budget: u64,
    spent: bool,
    judgement: Judgement,
}

impl Walk<'_> {
    fn node(&mut self, place: Place<'_>, schema: SchemaRef<'_>, path: &FieldPath) {
        if self.spent || place.value.is_null() || schema.is_typed() {
            return;
        }
        if schema.rules().is_some_and(|rules| !rules.validations.is_empty()) {
            self.evaluate(place, schema, path);
        }
        match place.value {
            Value::Object(map) => {
                for (key, value) in map {
                    let old = place.old.and_then(|old| old.get(key));
                    if let Some(field) = schema.field(key) {
                        self.node(place.child(value, old), field.schema(), &path.child(key));
                    } else if let Some(values) = schema.additional() {
                        self.node(place.child(value, old), values, &path.key(key));
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = schema.items() else { return };
                for (at, item) in list.iter().enumerate() {
                    let old = same_item(item, place.old, schema);
                    self.node(place.child(item, old), items, &path.index(at));
                }
            }
            _ => {}
        }
    }

    fn error(&mut self, error: FieldError) {
        self.judgement.errors.push(error);
    }
}

/// What an item of a keyed list was before.
fn same_item<'v>(item: &Value, old: Option<&'v Value>, schema: SchemaRef<'_>) -> Option<&'v Value> {
    let old = old.and_then(Value::as_array).filter(|_| schema.list_type() == ListType::Map)?;
    old.iter().find(|other| schema.list_keys().all(|key| other.get(key) == item.get(key)))
}

#[cfg(test)]
mod tests;
