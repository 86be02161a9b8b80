//! What a ValidatingAdmissionPolicy says of a request.

use copepod_api::Reason;
use copepod_cel::{
    BUDGET, FailurePolicy, Match, MatchConditions, Type, Val,
    admission::{self, Expression, Input, Options, Scope, Variable, VariablesType},
};
use serde_json::Value;

use crate::admission::{items, text};

/// The longest message that an expression may give.
const LONGEST: usize = 5 * 1024;

/// A compiled policy.
#[derive(Debug)]
pub(super) struct Validator {
    conditions: MatchConditions,
    variables: Vec<Variable>,
    validations: Vec<Validation>,
    annotations: Vec<Annotation>,
    policy: FailurePolicy,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    composed: Option<Expression>,
    reason: Option<Reason>,
}

#[derive(Debug)]
struct Annotation {
    key: String,
    expression: Expression,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Denial {
    pub(super) message: String,
    pub(super) reason: Reason,
}

/// What a policy said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Its validations that do not hold; the binding's actions decide what follows.
    pub(super) denials: Vec<Denial>,
    /// Failures that refuse whatever the actions are.
    pub(super) errors: Vec<Denial>,
    /// Keys and values for the audit log.
    pub(super) annotations: Vec<(String, String)>,
}

/// The variables of a policy and the environment that knows them.
pub(super) fn variables(spec: &Value) -> (Vec<Variable>, VariablesType, Options) {
    let params = spec.get("paramKind").is_some_and(|kind| !kind.is_null());
    let options = Options { params, authorizer: true };
    let types = VariablesType::default();
    let compile = |variable: &Value| {
        let (name, expression) = (text(variable, "name"), text(variable, "expression"));
        let program = copepod_cel::compile(expression, &types.in_env(admission::env(options)), &[Type::Dyn]);
        types.add(name, program.as_ref().map_or(&Type::Dyn, |program| program.output()));
        Variable { name: name.to_owned(), program }
    };
    (items(spec, "variables").map(compile).collect(), types.clone(), options)
}

/// The match conditions of a policy.
pub(super) fn conditions(spec: &Value, options: Options) -> MatchConditions {
    MatchConditions::of(spec.get("matchConditions"), options.params)
}

impl Validator {
    /// Compiles a policy's spec. What does not compile is an error when it is evaluated.
    pub(super) fn compile(spec: &Value) -> Self {
        let (variables, types, options) = variables(spec);
        let full = types.in_env(admission::env(options));
        let messages = types.in_env(admission::env(Options { authorizer: false, ..options }));
        let validations = items(spec, "validations").map(|validation| {
            let composed = Some(text(validation, "messageExpression")).filter(|e| !e.is_empty());
            Validation {
                expression: Expression::new(text(validation, "expression"), &full, &[Type::Bool]),
                message: text(validation, "message").to_owned(),
                composed: composed.map(|e| Expression::new(e, &messages, &[Type::String])),
                reason: Some(text(validation, "reason")).filter(|r| !r.is_empty()).map(reason),
            }
        });
        let annotations = items(spec, "auditAnnotations").map(|annotation| Annotation {
            key: text(annotation, "key").to_owned(),
            expression: Expression::new(
                text(annotation, "valueExpression"),
                &full,
                &[Type::String, Type::Null],
            ),
        });
        Self {
            conditions: conditions(spec, options),
            validations: validations.collect(),
            annotations: annotations.collect(),
            policy: FailurePolicy::of(text(spec, "failurePolicy")),
            variables,
        }
    }

    fn failed(&self, message: String) -> Option<Denial> {
        (self.policy == FailurePolicy::Fail).then_some(Denial { message, reason: Reason::Invalid })
    }

    fn only(&self, message: String) -> Verdict {
        Verdict { denials: self.failed(message).into_iter().collect(), ..Verdict::default() }
    }

    /// Asks the policy.
    pub(super) fn validate(&self, input: &Input<'_>) -> Verdict {
        match self.conditions.matches(input, self.policy) {
            Ok(Match::Yes) => {}
            Ok(Match::No(_)) => return Verdict::default(),
            Err(why) => return self.only(why),
        }
        let (mut budget, scope) = (BUDGET, Scope::new(*input, &self.variables));
        let values = self.validations.iter().map(|v| v.expression.eval(&scope, &mut budget));
        let values: Vec<Result<Val<'_>, String>> = match values.collect::<Result<_, _>>() {
            Ok(values) => values,
            Err(spent) => return self.only(spent),
        };
        let mut verdict = Verdict::default();
        let messages = self.messages(input, budget);
        for (at, (validation, value)) in self.validations.iter().zip(values).enumerate() {
            match (value, &messages) {
                (Err(why), _) => verdict.denials.extend(self.failed(why)),
                (_, Err(spent)) => {
                    verdict.denials.extend(self.failed(format!("failed messageExpression: {spent}")))
                }
                (Ok(Val::Bool(true)), _) => {}
                (Ok(_), Ok(messages)) => verdict.denials.push(Denial {
                    message: validation.message(messages.get(at).and_then(Option::as_deref)),
                    reason: validation.reason.unwrap_or(Reason::Invalid),
                }),
            }
        }
        self.annotate(input, verdict)
    }

    /// The messages that expressions give; none where they give none that can be used.
    fn messages(&self, input: &Input<'_>, mut budget: u64) -> Result<Vec<Option<String>>, String> {
        let input = Input { authorizer: None, ..*input };
        let scope = Scope::new(input, &self.variables);
        let mut out = Vec::new();
        for validation in &self.validations {
            let value = match &validation.composed {
                Some(expression) => expression.eval(&scope, &mut budget)?.ok(),
                None => None,
            };
            out.push(match value {
                Some(Val::Text(text)) => {
                    let text = text.trim();
                    Some(text.to_owned()).filter(|t| !t.is_empty() && t.len() <= LONGEST && !t.contains('\n'))
                }
                _ => None,
            });
        }
        Ok(out)
    }

    fn annotate(&self, input: &Input<'_>, mut verdict: Verdict) -> Verdict {
        let input = Input { authorizer: None, ..*input };
        let (mut budget, scope) = (BUDGET, Scope::new(input, &self.variables));
        for annotation in &self.annotations {
            match annotation.expression.eval(&scope, &mut budget) {
                Err(spent) => return self.only(spent),
                Ok(Err(why)) => verdict.errors.extend(self.failed(why)),
                Ok(Ok(Val::Text(text))) if !text.trim().is_empty() => {
                    verdict.annotations.push((annotation.key.clone(), text.trim().to_owned()));
                }
                Ok(Ok(_)) => {}
            }
        }
        verdict
    }
}

impl Validation {
    fn message(&self, composed: Option<&str>) -> String {
        match composed.or_else(|| Some(self.message.trim()).filter(|m| !m.is_empty())) {
            Some(message) => message.to_owned(),
            None => format!("failed expression: {}", self.expression.text().trim()),
        }
    }
}

fn reason(text: &str) -> Reason {
    match text {
        "Forbidden" => Reason::Forbidden,
        "Unauthorized" => Reason::Unauthorized,
        "RequestEntityTooLarge" => Reason::RequestEntityTooLarge,
        _ => Reason::Invalid,
    }
}
