//! Calls: overloads, and the operators that are steps of their own.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};

use super::{Checked, Checker, qualified};
use crate::{
    functions::{self, Function},
    library::{format, time},
    program::{Index, Node},
    signature::{self, Signature},
    types::Type,
    value::Val,
};

impl Checker<'_> {
    pub(super) fn call(&mut self, id: u64, call: &CallExpr) -> Checked {
        let name = call.func_name.as_str();
        if name == "_?._" {
            return self.optional_select(id, call);
        }
        let mixed = usize::from(name == "format");
        self.mixed += mixed;
        let args: Vec<Checked> = call.args.iter().map(|arg| self.expr(arg)).collect();
        self.mixed -= mixed;
        let Some(target) = &call.target else {
            return match self.function(name) {
                Some(function) => self.resolve(id, function, None, args, &call.args),
                None => self.undeclared(id, name),
            };
        };
        if let Some(prefix) = qualified(target)
            && let Some(function) = self.function(&format!("{prefix}.{name}"))
        {
            return self.resolve(id, function, None, args, &call.args);
        }
        let target = self.expr(target);
        match self.function(name) {
            Some(function) => self.resolve(id, function, Some(target), args, &call.args),
            None => self.undeclared(id, name),
        }
    }

    fn function(&self, name: &str) -> Option<&'static Function> {
        functions::find(name).filter(|function| self.env.patches || function.name != "jsonpatch.escapeKey")
    }

    fn resolve(
        &mut self,
        id: u64,
        function: &'static Function,
        target: Option<Checked>,
        args: Vec<Checked>,
        written: &[IdedExpr],
    ) -> Checked {
        let member = target.is_some();
        let (nodes, types): (Vec<Node>, Vec<Type>) = target.into_iter().chain(args).unzip();
        if matches!(function.name, "_&&_" | "_||_") {
            return self.logical(function.name, nodes, &types, written);
        }
        let mut result: Option<Type> = None;
        for text in function.overloads {
            let Signature { member: style, args: wanted, result: of } = signature::read(text, &mut self.next);
            if style != member || !self.mapping.all_assignable(&types, &wanted) {
                continue;
            }
            let found = self.known(&of);
            result = match result {
                None => Some(found),
                Some(before) if before != Type::Dyn && before != found => Some(Type::Dyn),
                same => same,
            };
        }
        let Some(result) = result else {
            self.no_overload(id, function.name, &types, member);
            return (Node::Const(Val::Null), Type::Error);
        };
        self.literals(function.name, written);
        if function.name == "format" {
            self.format(id, &nodes, written);
        }
        (step(function, nodes), result)
    }

    fn no_overload(&mut self, id: u64, name: &str, types: &[Type], member: bool) {
        let types: Vec<String> = types.iter().map(|t| self.mapping.substitute(t, true).checked()).collect();
        let signature = match (types.split_first(), member) {
            (Some((first, rest)), true) => format!("{first}.({})", rest.join(", ")),
            _ => format!("({})", types.join(", ")),
        };
        self.report(id, format!("found no matching overload for '{name}' applied to '{signature}'"));
    }

    fn logical(&mut self, name: &str, nodes: Vec<Node>, types: &[Type], written: &[IdedExpr]) -> Checked {
        let mut fits = true;
        for (of, expr) in types.iter().zip(written) {
            if !self.mapping.assignable(of, &Type::Bool) {
                self.mismatch(expr.id, &Type::Bool, of);
                fits = false;
            }
        }
        let node = if name == "_&&_" { Node::And(nodes) } else { Node::Or(nodes) };
        (node, if fits { Type::Bool } else { Type::Error })
    }

    /// A format that is written out must fit its arguments when these are, too.
    fn format(&mut self, id: u64, nodes: &[Node], written: &[IdedExpr]) {
        let (Some(Node::Const(Val::Text(pattern))), [list]) = (nodes.first(), written) else { return };
        let Expr::List(args) = &list.expr else { return };
        let clauses = match format::clauses(pattern) {
            Ok(clauses) => clauses,
            Err(why) => return self.late(id, why),
        };
        let (given, wanted) = (args.elements.len(), clauses.len());
        if given > wanted {
            let text =
                format!("too many arguments supplied to string.format (expected {wanted}, got {given})");
            return self.late(id, text);
        }
        if given < wanted {
            return self.late(id, format!("index {given} out of range"));
        }
        for (clause, arg) in clauses.into_iter().zip(&args.elements) {
            if let Expr::Literal(literal) = &arg.expr
                && let (Node::Const(value), _) = super::constant(literal)
                && let Err(why) = format::one(clause, None, &value)
            {
                self.late(arg.id, why.to_string());
            }
        }
    }

    fn late(&mut self, id: u64, text: String) {
        let issue = self.at.issue(id, text);
        self.late.push(issue);
    }

    /// Literals that can never be what a function wants.
    fn literals(&mut self, name: &str, written: &[IdedExpr]) {
        let text = |at: usize| match written.get(at).map(|arg| (arg.id, &arg.expr)) {
            Some((id, Expr::Literal(LiteralValue::String(text)))) => Some((id, text.inner())),
            _ => None,
        };
        let wrong = match name {
            "duration" => text(0).filter(|(_, text)| time::duration(text).is_err()),
            "timestamp" => text(0).filter(|(_, text)| time::timestamp(text).is_err()),
            "matches" => text(written.len().saturating_sub(1))
                .filter(|(_, text)| regex_lite::Regex::new(text).is_err()),
            _ => None,
        };
        if let Some((id, _)) = wrong {
            self.late(id, format!("invalid {name} argument"));
        }
    }
}

/// The step that a resolved call is.
fn step(function: &'static Function, nodes: Vec<Node>) -> Node {
    let optional = function.name == "_[?_]";
    match function.name {
        "_?:_" | "_?_:_" => match <[Node; 3]>::try_from(nodes) {
            Ok(three) => Node::Cond(Box::new(three)),
            Err(nodes) => Node::Call(function, nodes),
        },
        "_[_]" | "_[?_]" => match <[Node; 2]>::try_from(nodes) {
            Ok([of, at]) => Node::Index(Box::new(Index { of, at, optional })),
            Err(nodes) => Node::Call(function, nodes),
        },
        "@not_strictly_false" => match <[Node; 1]>::try_from(nodes) {
            Ok([inner]) => Node::Lenient(Box::new(inner)),
            Err(nodes) => Node::Call(function, nodes),
        },
        _ => Node::Call(function, nodes),
    }
}
