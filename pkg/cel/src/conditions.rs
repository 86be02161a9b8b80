//! Match conditions of webhooks and policies.

use serde_json::Value;

use crate::{
    MATCH_BUDGET, Type,
    admission::{self, Expression, Input, Options, Scope},
    value::Val,
};

/// What an error means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is refused.
    Fail,
    /// The webhook or policy does not apply.
    Ignore,
}

impl FailurePolicy {
    /// The policy of a `failurePolicy` field.
    #[must_use]
    pub fn of(text: &str) -> Self {
        if text == "Ignore" { Self::Ignore } else { Self::Fail }
    }
}

/// Whether a webhook or policy applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// It does.
    Yes,
    /// It does not; the condition that says so, unless an error was ignored.
    No(Option<String>),
}

#[derive(Debug)]
struct Condition {
    name: String,
    expression: Expression,
}

/// The conditions of one webhook or policy, compiled.
#[derive(Debug, Default)]
pub struct MatchConditions(Vec<Condition>);

impl MatchConditions {
    /// Compiles names and expressions. What does not compile is an error of the evaluation.
    #[must_use]
    pub fn new<'c>(conditions: impl IntoIterator<Item = (&'c str, &'c str)>, options: Options) -> Self {
        let env = admission::env(options);
        let one = |(name, expression): (&str, &str)| Condition {
            name: name.to_owned(),
            expression: Expression::new(expression, &env, &[Type::Bool]),
        };
        Self(conditions.into_iter().map(one).collect())
    }

    /// The conditions of a `matchConditions` field, with `authorizer` and, for policies with parameters, `params`.
    #[must_use]
    pub fn of(list: Option<&Value>, params: bool) -> Self {
        let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let text = |value: &'_ Value, key: &str| {
            value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let pairs: Vec<(String, String)> =
            list.iter().map(|c| (text(c, "name"), text(c, "expression"))).collect();
        let options = Options { params, authorizer: true };
        Self::new(pairs.iter().map(|(name, expression)| (name.as_str(), expression.as_str())), options)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all conditions hold.
    ///
    /// # Errors
    /// The texts of what failed, when no condition is false and failures are not ignored.
    pub fn matches(&self, input: &Input<'_>, policy: FailurePolicy) -> Result<Match, String> {
        // Conditions see no namespace.
        let scope = Scope::new(Input { namespace: None, ..*input }, &[]);
        let failed = |why: String| match policy {
            FailurePolicy::Fail => Err(why),
            FailurePolicy::Ignore => Ok(Match::No(None)),
        };
        let (mut budget, mut errors) = (MATCH_BUDGET, Vec::new());
        for condition in &self.0 {
            let value = match condition.expression.eval(&scope, &mut budget) {
                Ok(value) => value,
                Err(spent) => return failed(spent),
            };
            match value {
                Ok(Val::Bool(false)) => return Ok(Match::No(Some(condition.name.clone()))),
                Ok(_) => {}
                Err(why) => errors.push(why),
            }
        }
        match errors.as_slice() {
            [] => Ok(Match::Yes),
            [one] => failed(one.clone()),
            many => failed(format!("[{}]", many.join(", "))),
        }
    }
}
