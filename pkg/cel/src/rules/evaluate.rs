//! The rules of one value.

use copepod_api::{FieldError, FieldPath};
use copepod_schema::{SchemaRef, node::Kind};
use serde_json::Value;

use super::{Place, Rule, Walk, text};
use crate::{
    Activation, Limits, Program,
    value::{Failure, Val},
};

/// The longest message that an expression may give.
const LONGEST: usize = 5 * 1024;
const SPENT: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// `self` and `oldSelf`.
struct Selves<'a> {
    own: Val<'a>,
    old: Option<Val<'a>>,
}

impl<'a> Activation<'a> for Selves<'a> {
    fn get(&self, name: &str) -> Option<Result<Val<'a>, Failure>> {
        match name {
            "self" => Some(Ok(self.own.clone())),
            "oldSelf" => self.old.clone().map(Ok),
            _ => None,
        }
    }
}

/// What a message expression gave.
enum Message {
    Given(String),
    /// Nothing that can be used; the rule's own message stands.
    Unusable,
    /// It cost too much, which ends all.
    Spent(String),
}

impl Rule {
    /// What an error names: the message, or the rule.
    fn shown(&self) -> &str {
        let message = text(&self.written, "message").trim();
        if message.is_empty() { text(&self.written, "rule").trim() } else { message }
    }

    fn default_message(&self) -> String {
        match text(&self.written, "message").trim() {
            "" => format!("failed rule: {}", self.shown()),
            message => message.to_owned(),
        }
    }

    fn error(&self, path: &FieldPath, value: Option<Value>, detail: String) -> FieldError {
        let place = match &self.field {
            Some(field) => join(path, field),
            None => path.clone(),
        };
        let shown = value.clone().unwrap_or_default();
        let mut error = match text(&self.written, "reason") {
            "FieldValueForbidden" => return FieldError::forbidden(&place, detail),
            "FieldValueRequired" => return FieldError::required(&place, detail),
            "FieldValueDuplicate" => FieldError::duplicate(&place, shown),
            _ => FieldError::invalid(&place, shown, detail),
        };
        error.value = value;
        error
    }
}

/// A path below another.
fn join(path: &FieldPath, below: &FieldPath) -> FieldPath {
    path.child(below.as_str())
}

impl Walk<'_> {
    pub(super) fn evaluate(&mut self, place: Place<'_>, schema: SchemaRef<'_>, path: &FieldPath) {
        let rules = self.rules.at(schema.id());
        for rule in rules.iter() {
            if self.spent {
                return;
            }
            self.rule(rule, place, schema, path);
        }
    }

    fn rule(&mut self, rule: &Rule, place: Place<'_>, schema: SchemaRef<'_>, path: &FieldPath) {
        let kind = schema.kind().name();
        let invalid = |detail: String| FieldError::invalid(path, kind, detail);
        let program = match &rule.program {
            None => return,
            Some(Err(why)) => return self.error(invalid(format!("rule compile error: {why}"))),
            Some(Ok(program)) => program,
        };
        if rule.uses_old && place.old.is_none() && !rule.optional_old {
            // A transition rule has nothing to compare with.
            return;
        }
        let selves = selves(rule, place, schema);
        let outcome = program.eval(&selves, Limits::default());
        let Some(left) = self.budget.checked_sub(outcome.cost) else {
            self.spent = true;
            return self.error(invalid(SPENT.to_owned()));
        };
        self.budget = left;
        match outcome.value {
            Ok(Val::Bool(true)) => {}
            Ok(_) => self.broken(rule, place, schema, path, &selves),
            Err(failure) => {
                let shown = rule.shown();
                let detail = match &failure {
                    Failure::Error(why) if why.starts_with("no such overload") => format!(
                        "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
                    ),
                    Failure::Cost => {
                        self.spent = true;
                        format!(
                            "'{failure}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
                        )
                    }
                    why => format!("{why} evaluating rule: {shown}"),
                };
                self.error(invalid(detail));
            }
        }
    }

    /// Reports a rule that does not hold: a warning when the value was so before.
    fn broken<'a>(
        &mut self,
        rule: &'a Rule,
        place: Place<'_>,
        schema: SchemaRef<'_>,
        path: &FieldPath,
        selves: &Selves<'a>,
    ) {
        let message = rule.message.as_ref().and_then(|program| program.as_ref().ok());
        let message = message.map(|program| self.message(program, rule, selves));
        let error = match message {
            Some(Message::Spent(why)) => {
                self.spent = true;
                FieldError::invalid(path, schema.kind().name(), why)
            }
            message => {
                let detail = match message {
                    Some(Message::Given(text)) => text,
                    _ => rule.default_message(),
                };
                let plain = !matches!(schema.kind(), Kind::Object | Kind::Array);
                rule.error(path, plain.then(|| place.value.clone()), detail)
            }
        };
        if place.unchanged && !rule.uses_old {
            self.judgement.warnings.push(error.to_string());
        } else {
            self.error(error);
        }
    }

    fn message<'a>(&mut self, program: &'a Program, rule: &Rule, selves: &Selves<'a>) -> Message {
        let outcome = program.eval(selves, Limits::default());
        let Some(left) = self.budget.checked_sub(outcome.cost) else {
            return Message::Spent(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned(),
            );
        };
        match outcome.value {
            Err(Failure::Cost) => {
                let written = copepod_api::field::quote(text(&rule.written, "messageExpression"));
                Message::Spent(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {written}"
                ))
            }
            Ok(Val::Text(text)) => {
                self.budget = left;
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= LONGEST && !text.contains('\n');
                if usable { Message::Given(text.to_owned()) } else { Message::Unusable }
            }
            _ => {
                self.budget = left;
                Message::Unusable
            }
        }
    }
}

fn selves<'a>(rule: &Rule, place: Place<'a>, schema: SchemaRef<'a>) -> Selves<'a> {
    let old = place.old.filter(|old| !old.is_null()).map(|old| Val::typed(old, Some(schema)));
    let old = if rule.optional_old { Some(old.map_or(Val::Optional(None), Val::some)) } else { old };
    Selves { own: Val::typed(place.value, Some(schema)), old }
}
