//! Expressions of policies and match conditions: what does not compile is refused.

use copepod_cel::{
    Type,
    admission::{self, Options, VariablesType},
    compile, mutation,
};

use crate::kinds::at::At;

/// Compiles the expressions of one policy; its variables are known to those that come after them.
pub(super) struct Compiler {
    params: bool,
    variables: Option<VariablesType>,
}

/// What an expression is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Gives a condition.
    Condition,
    /// Gives a message: no authorizer.
    Message,
    /// Gives the value of an audit annotation.
    Annotation,
    /// Gives an object to apply.
    Apply,
    /// Gives the operations of a JSON patch.
    Patch,
}

impl Compiler {
    /// For a policy with or without parameters.
    pub(super) fn new(params: bool) -> Self {
        Self { params, variables: None }
    }

    /// For a policy that may have variables.
    pub(super) fn of(spec: &At<'_>) -> Self {
        let composed = !spec.get("variables").is_empty();
        Self { params: spec.get("paramKind").present(), variables: composed.then(VariablesType::default) }
    }

    fn compile(&self, expression: &str, purpose: Option<Use>) -> Result<Type, String> {
        let options = Options { params: self.params, authorizer: purpose != Some(Use::Message) };
        let mut env = admission::env(options);
        if let Some(variables) = &self.variables {
            env = variables.in_env(env);
        }
        if matches!(purpose, Some(Use::Apply | Use::Patch)) {
            env = mutation::in_env(env);
        }
        let returns = match purpose {
            None => vec![Type::Dyn],
            Some(Use::Condition) => vec![Type::Bool],
            Some(Use::Message) => vec![Type::String],
            Some(Use::Annotation) => vec![Type::String, Type::Null],
            Some(Use::Apply) => vec![mutation::object_type()],
            Some(Use::Patch) => vec![mutation::patch_type()],
        };
        compile(expression, &env, &returns).map(|program| program.output().clone())
    }

    /// Refuses an expression that does not compile.
    pub(super) fn check(&self, at: &At<'_>, expression: &str, purpose: Use) {
        if let Err(why) = self.compile(expression, Some(purpose)) {
            at.invalid_as(expression, why);
        }
    }

    /// Adds a variable; refuses one whose expression does not compile.
    pub(super) fn variable(&self, at: &At<'_>, name: &str) {
        let compiled = self.compile(at.str(), None);
        if let Some(variables) = &self.variables {
            variables.add(name, compiled.as_ref().unwrap_or(&Type::Dyn));
        }
        if let Err(why) = compiled {
            at.invalid_as(at.str(), why);
        }
    }
}

/// Whether a name can be a variable's.
pub(super) fn identifier(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    let plain = name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    starts && plain && !copepod_cel::reserved(name)
}
