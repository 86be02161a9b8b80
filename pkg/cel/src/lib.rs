//! The Common Expression Language as Kubernetes v1.37 has it.
//!
//! The parser is the `cel` crate's (the grammar is upstream's own, so its complaints are too). Types are checked,
//! and expressions evaluated, here: the crate has no type checker, no cost and no way to stop, and its values copy
//! what they are made of. An evaluation here reads JSON in place; a compiled expression is a small tree.
//!
//! # Interfaces
//!
//! ```text
//! compile(source, &env, &[Type::Bool]) -> Result<Program, String>           text as upstream's `compilation failed: …`
//! program.eval(&activation, Limits::default()) -> Outcome { value, cost }   never more than the limit
//!
//! admission::env(Options { params, authorizer, .. }) -> Env                 object, oldObject, request, …
//! admission::Input { object, old_object, request, .. }                      what an evaluation sees
//! MatchConditions::new([(name, expression)…], options)                      of webhooks and policies
//! conditions.matches(&input, FailurePolicy::Fail) -> Result<Match, String>
//! ```

pub mod admission;
mod check;
mod conditions;
mod cost;
pub mod device;
mod env;
mod escape;
mod eval;
mod functions;
mod library;
mod macros;
pub mod mutation;
mod parse;
mod program;
pub mod rules;
pub mod schema;
mod signature;
pub mod typecheck;
pub mod types;
pub mod value;

pub use conditions::{FailurePolicy, Match, MatchConditions};
pub use env::{Env, Types};
pub use escape::{escape, reserved, unescape};
pub use eval::{Activation, Limits, Outcome, PER_CALL};
pub use library::authz::{Authorizer, Authz, Check, Decision};
pub use program::Program;
pub use types::Type;
pub use value::{Failure, Val};

/// The most that all expressions of a policy's binding, or of a custom resource, may cost together.
pub const BUDGET: u64 = 10_000_000;
/// The most that the match conditions of one webhook or policy may cost.
pub const MATCH_BUDGET: u64 = 2_500_000;

/// Compiles an expression whose value must have one of the types `returns` (any, when it names `dyn`).
///
/// # Errors
/// What is wrong with it, as upstream says it.
pub fn compile(source: &str, env: &Env, returns: &[Type]) -> Result<Program, String> {
    let program = compile_checked(source, env).map_err(|why| format!("compilation failed: {why}"))?;
    let output = program.output();
    if returns.iter().any(|wanted| wanted == output || *wanted == Type::Dyn) {
        return Ok(program);
    }
    match returns {
        [one] => Err(format!("must evaluate to {one} but got {output}")),
        many => {
            let many: Vec<String> = many.iter().map(ToString::to_string).collect();
            Err(format!("must evaluate to one of [{}] but got {output}", many.join(" ")))
        }
    }
}

/// Parses and checks an expression; what is wrong with it as the language says it.
fn compile_checked(source: &str, env: &Env) -> Result<Program, String> {
    let failed = |issues: Vec<parse::Issue>| parse::render(source, &issues);
    let (expr, at) = parse::parse(source, env.bindings).map_err(failed)?;
    check::check(env, &expr, &at).map_err(failed)
}

#[cfg(test)]
mod tests;
