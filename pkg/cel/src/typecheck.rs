//! Expressions of a ValidatingAdmissionPolicy against the types of the objects it matches. What is found are warnings
//! in the policy's status; they change nothing about the policy.

use copepod_api::GroupVersionKind;
use serde_json::Value;

use crate::{
    Env, Type,
    admission::{self, Options, VariablesType},
    compile_checked,
};

/// The most types that one rule's resources are checked for.
pub const MOST_TYPES: usize = 10;

/// A kind and its type.
pub type Typed = (GroupVersionKind, Type);

/// A warning about an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The expression's place in the policy.
    pub field: String,
    /// What is wrong, for each type.
    pub text: String,
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn items<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// Checks the validations of a policy's `spec` for each of `kinds`, sorted; `params` is the type of parameters, where
/// it is known.
#[must_use]
pub fn check(spec: &Value, kinds: &[Typed], params: Option<Type>) -> Vec<Warning> {
    let has_params = spec.get("paramKind").is_some_and(|kind| !kind.is_null());
    let options = Options { params: has_params, authorizer: true };
    let params = params.unwrap_or(Type::Dyn);
    let mut warnings = Vec::new();
    for (at, validation) in items(spec, "validations").enumerate() {
        for field in ["expression", "messageExpression"] {
            let expression = text(validation, field);
            if expression.is_empty() {
                continue;
            }
            let found = kinds.iter().filter_map(|(gvk, of)| {
                let env = admission::typed_env(options, of.clone(), params.clone());
                let why = compile_checked(expression, &with_variables(spec, env)).err()?;
                Some(format!("{}/{}, Kind={}: {why}\n", gvk.group, gvk.version, gvk.kind))
            });
            let found: Vec<String> = found.collect();
            if !found.is_empty() {
                let field = format!("spec.validations[{at}].{field}");
                warnings.push(Warning { field, text: found.join("\n") });
            }
        }
    }
    warnings
}

/// The environment with the policy's variables, of the types that their expressions have.
fn with_variables(spec: &Value, env: Env) -> Env {
    let variables = VariablesType::default();
    let env = variables.in_env(env);
    for variable in items(spec, "variables") {
        let program = compile_checked(text(variable, "expression"), &env);
        variables
            .add(text(variable, "name"), program.as_ref().map_or(&Type::Dyn, |program| program.output()));
    }
    env
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{Schemas, View};

    #[test]
    fn wrong_fields_and_types_are_warned_about() {
        let set = copepod_schema::builtin();
        let deployment = set.kind("apps", "v1", "Deployment").unwrap();
        let of = View::whole(Schemas::Builtin(set)).of(deployment.id(), "Deployment").unwrap();
        let kinds = [(GroupVersionKind::new("apps", "v1", "Deployment"), of)];
        let spec = json!({
            "variables": [{"name": "n", "expression": "object.spec.replicas"}],
            "validations": [
                {"expression": "object.spec.replicas > 1"},
                {"expression": "object.spec.replicas > '1'"},
                {"expression": "object.spec.foo == 1", "messageExpression": "'x' + variables.n"},
                {"expression": "object.spec.template.spec.containers.all(c, c.resources.limits['cpu'] != '')"},
                {"expression": "object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')"},
            ],
        });
        let warnings = check(&spec, &kinds, None);
        let fields: Vec<&str> = warnings.iter().map(|w| w.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.validations[1].expression",
                "spec.validations[2].expression",
                "spec.validations[2].messageExpression",
            ]
        );
        assert_eq!(
            warnings[0].text,
            "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n"
        );
        assert!(warnings[1].text.contains("undefined field 'foo'"));
    }
}
