//! What a MutatingAdmissionPolicy makes of an object.

use copepod_cel::{
    BUDGET, FailurePolicy, Match, MatchConditions,
    admission::{self, Expression, Input, Scope, Variable},
    mutation,
};
use copepod_schema::{SchemaRef, managed, patch};
use serde_json::Value;

use super::validator;
use crate::admission::{items, text};

/// A compiled policy.
#[derive(Debug)]
pub(super) struct Mutator {
    conditions: MatchConditions,
    variables: Vec<Variable>,
    pub(super) mutations: Vec<Mutation>,
    policy: FailurePolicy,
    /// `reinvocationPolicy: IfNeeded`
    pub(super) again: bool,
}

/// One mutation; they run in order.
#[derive(Debug)]
pub(super) enum Mutation {
    /// An object of fields to set.
    Apply(Expression),
    /// Operations of a JSON patch.
    Patch(Expression),
}

impl Mutator {
    /// Compiles a policy's spec. What does not compile is an error when it is evaluated.
    pub(super) fn compile(spec: &Value) -> Self {
        let (variables, types, options) = validator::variables(spec);
        let env = mutation::in_env(types.in_env(admission::env(options)));
        let mutations = items(spec, "mutations").map(|one| {
            let expression = |field: &str| text(&one[field], "expression").to_owned();
            if text(one, "patchType") == "JSONPatch" {
                Mutation::Patch(Expression::new(&expression("jsonPatch"), &env, &[mutation::patch_type()]))
            } else {
                let expression = expression("applyConfiguration");
                Mutation::Apply(Expression::new(&expression, &env, &[mutation::object_type()]))
            }
        });
        Self {
            conditions: validator::conditions(spec, options),
            mutations: mutations.collect(),
            policy: FailurePolicy::of(text(spec, "failurePolicy")),
            again: text(spec, "reinvocationPolicy") == "IfNeeded",
            variables,
        }
    }

    /// Whether the policy's conditions hold.
    pub(super) fn applies(&self, input: &Input<'_>) -> Result<bool, String> {
        self.conditions.matches(input, self.policy).map(|matched| matched == Match::Yes)
    }

    /// The object as one mutation makes it.
    pub(super) fn mutate(
        &self,
        mutation: &Mutation,
        input: &Input<'_>,
        schema: SchemaRef<'_>,
    ) -> Result<Value, String> {
        let object = input.object.ok_or("there is no object to mutate")?;
        let scope = Scope::new(*input, &self.variables);
        let (Mutation::Apply(expression) | Mutation::Patch(expression)) = mutation;
        if let Some(why) = expression.error() {
            return Err(why.to_owned());
        }
        let mut budget = BUDGET;
        let value = expression.eval(&scope, &mut budget)??;
        if let Some(why) = mutation::misnamed(&value) {
            return Err(format!("type mismatch: {why}"));
        }
        let value = value.to_json().map_err(|why| why.to_string())?;
        match mutation {
            Mutation::Apply(_) => apply(object, value, schema),
            Mutation::Patch(_) => patched(object, &value),
        }
    }
}

fn apply(object: &Value, mut config: Value, schema: SchemaRef<'_>) -> Result<Value, String> {
    if let Some(map) = config.as_object_mut() {
        for field in ["apiVersion", "kind"] {
            map.insert(field.to_owned(), object[field].clone());
        }
    }
    managed::merge_unowned(object, &config, schema).map_err(|why| format!("error applying patch: {why}"))
}

fn patched(object: &Value, operations: &Value) -> Result<Value, String> {
    let mut new = object.clone();
    match patch::json(&mut new, operations.to_string().as_bytes()) {
        Ok(()) => Ok(new),
        // A failed test means that the patch is not to be applied.
        Err(why) if why.is_failed_test() => Ok(object.clone()),
        Err(why) => Err(format!("JSON Patch: {why}")),
    }
}
