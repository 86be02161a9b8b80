//! The type checker: finds what names and calls mean, and turns syntax into a [`Program`].
//!
//! It follows the rules of upstream's checker closely, because its error texts are part of the API.

use std::sync::Arc;

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use crate::{
    env::Env,
    parse::{Issue, Positions},
    program::{Fold, Node, Program, Select},
    signature,
    types::Type,
    value::{Text, Val},
};

mod call;
mod literal;
mod unify;

use unify::Mapping;

/// An expression that has been checked, and its type.
pub(crate) type Checked = (Node, Type);

pub(crate) struct Checker<'e> {
    env: &'e Env,
    at: &'e Positions<'e>,
    issues: Vec<Issue>,
    /// Issues of the validators, which speak only when the checker has nothing to say.
    late: Vec<Issue>,
    mapping: Mapping,
    next: u32,
    /// Variables of the comprehensions around, as on the evaluator's stack.
    scope: Vec<(String, Type)>,
    /// How many calls around take lists of mixed types.
    mixed: usize,
}

/// Checks an expression.
pub(crate) fn check(env: &Env, expr: &IdedExpr, at: &Positions<'_>) -> Result<Program, Vec<Issue>> {
    let mut checker = Checker {
        env,
        at,
        issues: Vec::new(),
        late: Vec::new(),
        mapping: Mapping::default(),
        next: 0,
        scope: Vec::new(),
        mixed: 0,
    };
    let (root, output) = checker.expr(expr);
    if checker.issues.is_empty() {
        checker.issues = checker.late;
    }
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    Ok(Program { root, output: checker.mapping.substitute(&output, true) })
}

impl Checker<'_> {
    fn report(&mut self, id: u64, text: impl Into<String>) {
        self.issues.push(self.at.issue(id, text.into()));
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Checked {
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        (Node::Const(Val::Null), Type::Error)
    }

    fn fresh(&mut self) -> Type {
        signature::fresh(&mut self.next)
    }

    fn known(&self, of: &Type) -> Type {
        self.mapping.substitute(of, false)
    }

    fn expr(&mut self, expr: &IdedExpr) -> Checked {
        match &expr.expr {
            Expr::Literal(literal) => constant(literal),
            Expr::Ident(name) => self.ident(expr.id, name),
            Expr::Select(select) => self.select(expr, select),
            Expr::Call(call) => self.call(expr.id, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Struct(object) => self.object(expr.id, object),
            Expr::Comprehension(fold) => self.fold(fold),
            Expr::Unspecified => (Node::Const(Val::Null), Type::Error),
        }
    }

    /// What a name means: a variable of a comprehension, of the environment, or a type.
    fn name(&self, name: &str) -> Option<Checked> {
        let plain = name.trim_start_matches('.');
        if plain == name
            && let Some(at) = self.scope.iter().rposition(|(known, _)| known == name)
        {
            return self.scope.get(at).map(|(_, of)| (Node::Local(at), of.clone()));
        }
        if let Some(of) = self.env.variable(plain) {
            return Some((Node::Var(Arc::from(plain)), of.clone()));
        }
        let of = type_named(plain)?;
        Some((Node::Const(Val::Type(Arc::new(of.clone()))), of.of()))
    }

    fn ident(&mut self, id: u64, name: &str) -> Checked {
        match self.name(name) {
            Some(found) => found,
            None => self.undeclared(id, name),
        }
    }

    fn select(&mut self, expr: &IdedExpr, select: &SelectExpr) -> Checked {
        if let Some(path) = qualified(expr) {
            let root = path.split('.').next().unwrap_or_default();
            let local = self.scope.iter().any(|(known, _)| known == root);
            if !local && let Some(found) = self.name(&path) {
                return found;
            }
        }
        let (of, of_type) = self.expr(&select.operand);
        let found = self.field(expr.id, &of_type, &select.field, false);
        let result = if select.test { Type::Bool } else { self.known(&found) };
        if let (Type::Struct(object), Node::Var(name)) = (&of_type, &of)
            && object.0.computed()
        {
            let field = Node::Var(format!("{name}.{}", select.field).into());
            return (if select.test { Node::Const(Val::Bool(true)) } else { field }, result);
        }
        let field = Arc::from(select.field.as_str());
        (Node::Select(Box::new(Select { of, field, test: select.test, optional: false })), result)
    }

    /// The type of a field of a value.
    fn field(&mut self, id: u64, of: &Type, field: &str, optional: bool) -> Type {
        let of = self.known(of);
        let (target, was_optional) = match &of {
            Type::Optional(inner) => ((**inner).clone(), true),
            _ => (of.clone(), false),
        };
        let result = match &target {
            Type::Map(parts) => parts.1.clone(),
            Type::Struct(object) => object.0.field(field).unwrap_or_else(|| {
                self.report(id, format!("undefined field '{field}'"));
                Type::Error
            }),
            Type::Param(_) => {
                self.mapping.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let text = format!("type '{}' does not support field selection", other.checked());
                self.report(id, text);
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(result) } else { result }
    }

    fn optional_select(&mut self, id: u64, call: &CallExpr) -> Checked {
        let [operand, field] = call.args.as_slice() else { return (Node::Const(Val::Null), Type::Error) };
        let Expr::Literal(LiteralValue::String(name)) = &field.expr else {
            self.report(field.id, "unsupported optional field selection");
            return (Node::Const(Val::Null), Type::Error);
        };
        let (of, of_type) = self.expr(operand);
        let result = self.field(id, &of_type, name.inner(), true);
        let result = self.known(&result);
        let field = Arc::from(name.inner());
        (Node::Select(Box::new(Select { of, field, test: false, optional: true })), result)
    }

    fn fold(&mut self, fold: &ComprehensionExpr) -> Checked {
        let (over, range) = self.expr(&fold.iter_range);
        let (init, accumulated) = self.expr(&fold.accu_init);
        let two = fold.iter_var2.is_some();
        let (first, second) = self.loop_types(&fold.iter_range, &range, two);
        let depth = self.scope.len();
        self.scope.push((fold.accu_var.clone(), accumulated.clone()));
        self.scope.push((fold.iter_var.clone(), first));
        if let Some(name) = &fold.iter_var2 {
            self.scope.push((name.clone(), second));
        }
        let (cond, cond_type) = self.expr(&fold.loop_cond);
        self.assert(fold.loop_cond.id, &Type::Bool, &cond_type);
        let (step, step_type) = self.expr(&fold.loop_step);
        self.assert(fold.loop_step.id, &accumulated, &step_type);
        self.scope.truncate(depth + 1);
        let (result, result_type) = self.expr(&fold.result);
        self.scope.truncate(depth);
        let result_type = self.known(&result_type);
        (Node::Fold(Box::new(Fold { over, two, init, cond, step, result })), result_type)
    }

    /// The types of a loop's variables.
    fn loop_types(&mut self, over: &IdedExpr, range: &Type, two: bool) -> (Type, Type) {
        let range = self.known(range);
        match &range {
            Type::List(item) if two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Error),
            Type::Map(parts) => (parts.0.clone(), parts.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.mapping.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let what = other.checked();
                let text = format!(
                    "expression of type '{what}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(over.id, text);
                (Type::Error, Type::Error)
            }
        }
    }

    fn assert(&mut self, id: u64, wanted: &Type, found: &Type) {
        if !self.mapping.assignable(wanted, found) {
            self.mismatch(id, wanted, found);
        }
    }

    fn mismatch(&mut self, id: u64, wanted: &Type, found: &Type) {
        let text = format!("expected type '{}' but found '{}'", wanted.checked(), found.checked());
        self.report(id, text);
    }
}

/// The dotted name that an expression spells.
fn qualified(expr: &IdedExpr) -> Option<String> {
    match &expr.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            qualified(&select.operand).map(|before| format!("{before}.{}", select.field))
        }
        _ => None,
    }
}

fn constant(literal: &LiteralValue) -> Checked {
    let (value, of) = match literal {
        LiteralValue::Boolean(v) => (Val::Bool(*v.inner()), Type::Bool),
        LiteralValue::Bytes(v) => (Val::Bytes(Arc::from(v.inner())), Type::Bytes),
        LiteralValue::Double(v) => (Val::Double(*v.inner()), Type::Double),
        LiteralValue::Int(v) => (Val::Int(*v.inner()), Type::Int),
        LiteralValue::Null => (Val::Null, Type::Null),
        LiteralValue::String(v) => (Val::Text(Text::Made(Arc::from(v.inner()))), Type::String),
        LiteralValue::UInt(v) => (Val::Uint(*v.inner()), Type::Uint),
    };
    (Node::Const(value), of)
}

/// The types that have a name in every expression.
fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "string" => Type::String,
        "type" => Type::Type(None),
        "uint" => Type::Uint,
        "optional_type" => Type::optional(Type::Dyn),
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        _ => return None,
    })
}
