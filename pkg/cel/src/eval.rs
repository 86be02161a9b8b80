//! The evaluator: walks a [`Program`], counts its cost as upstream does, and stops when it costs too much.

use std::{fmt, sync::Arc};

use crate::{
    cost,
    program::{Fold, Index, Node, Program, Select},
    value::{Failure, Key, List, Map, Result, Text, Val},
};

mod literal;

/// The most that one expression may cost.
pub const PER_CALL: u64 = 1_000_000;
/// Loops between two looks at whether somebody still waits.
const PATIENCE: u64 = 100;

/// The values of variables.
pub trait Activation<'a> {
    /// The value of a variable of the environment; `None` when it has none. The fields of a variable whose type says
    /// that they are [computed](crate::types::StructType::computed) are asked for as `variable.field`.
    fn get(&self, name: &str) -> Option<Result<Val<'a>>>;
}

/// What limits an evaluation.
#[derive(Clone, Copy)]
pub struct Limits<'l> {
    /// The most it may cost.
    pub cost: u64,
    /// Asked now and then: whether to give up.
    pub interrupted: Option<&'l (dyn Fn() -> bool + 'l)>,
}

impl fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").field("cost", &self.cost).finish_non_exhaustive()
    }
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Self { cost: PER_CALL, interrupted: None }
    }
}

/// The outcome of an evaluation and what it cost.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The value, or what went wrong.
    pub value: Result<Val<'a>>,
    /// In upstream's units.
    pub cost: u64,
}

struct Run<'a, 'r> {
    activation: &'r (dyn Activation<'a> + 'r),
    limits: Limits<'r>,
    cost: u64,
    loops: u64,
    locals: Vec<Val<'a>>,
}

impl Program {
    /// Evaluates the expression.
    pub fn eval<'a>(&'a self, activation: &dyn Activation<'a>, limits: Limits<'_>) -> Outcome<'a> {
        let mut run = Run { activation, limits, cost: 0, loops: 0, locals: Vec::new() };
        let value = run.node(&self.root);
        Outcome { value, cost: run.cost }
    }
}

impl<'a> Run<'a, '_> {
    fn spend(&mut self, cost: u64) -> Result<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limits.cost { Err(Failure::Cost) } else { Ok(()) }
    }

    fn node(&mut self, node: &'a Node) -> Result<Val<'a>> {
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Var(name) => {
                self.spend(1)?;
                let value = self.activation.get(name);
                value.unwrap_or_else(|| Err(Failure::new(format!("no such attribute(s): {name}"))))
            }
            Node::Local(at) => {
                self.spend(1)?;
                match self.locals.get(*at) {
                    Some(Val::Failed(text)) => Err(Failure::new(&**text)),
                    Some(value) => Ok(value.clone()),
                    None => Err(Failure::new("no such attribute")),
                }
            }
            Node::Select(select) => self.select(select),
            Node::Index(index) => self.index(index),
            Node::And(terms) => self.logical(terms, false),
            Node::Or(terms) => self.logical(terms, true),
            Node::Cond(parts) => {
                let [cond, then, otherwise] = &**parts;
                match self.node(cond)? {
                    Val::Bool(true) => self.node(then),
                    Val::Bool(false) => self.node(otherwise),
                    _ => Err(Failure::overload()),
                }
            }
            Node::Lenient(inner) => {
                let value = self.node(inner);
                self.spend(1)?;
                match value {
                    Ok(Val::Bool(value)) => Ok(Val::Bool(value)),
                    Err(failure @ (Failure::Cost | Failure::Interrupted)) => Err(failure),
                    _ => Ok(Val::Bool(true)),
                }
            }
            Node::Call(function, args) => {
                let args = args.iter().map(|arg| self.node(arg)).collect::<Result<Vec<_>>>()?;
                self.afford(function.name, &args)?;
                let result = (function.run)(&args);
                let value = result.as_ref().ok();
                self.spend(cost::call(function.name, &args, value))?;
                result
            }
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Struct(name, fields) => self.object(name, fields),
            Node::Fold(fold) => self.fold(fold),
        }
    }

    /// A list that costs more than there is left is not made first.
    fn afford(&self, name: &str, args: &[Val<'a>]) -> Result<()> {
        match (name, args) {
            ("lists.range", [Val::Int(n)])
                if u64::try_from(*n).is_ok_and(|n| self.cost.saturating_add(n) > self.limits.cost) =>
            {
                Err(Failure::Cost)
            }
            _ => Ok(()),
        }
    }

    /// `&&` and `||`: a term that decides wins over errors of the others.
    fn logical(&mut self, terms: &'a [Node], decides: bool) -> Result<Val<'a>> {
        let mut failed = None;
        for term in terms {
            match self.node(term) {
                Ok(Val::Bool(value)) if value == decides => return Ok(Val::Bool(decides)),
                Ok(Val::Bool(_)) => {}
                Err(failure @ (Failure::Cost | Failure::Interrupted)) => return Err(failure),
                Ok(_) => failed = failed.or_else(|| Some(Failure::overload())),
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        failed.map_or(Ok(Val::Bool(!decides)), Err)
    }

    fn select(&mut self, select: &'a Select) -> Result<Val<'a>> {
        let of = self.node(&select.of)?;
        let (of, was_optional) = match of {
            Val::Optional(None) => {
                return Ok(if select.test { Val::Bool(false) } else { Val::Optional(None) });
            }
            Val::Optional(Some(inner)) => ((*inner).clone(), true),
            of => (of, false),
        };
        if !select.test {
            self.spend(1)?;
        }
        let optional = select.optional || was_optional;
        let found = match &of {
            Val::Map(map) => map.get(&Key::Text(Arc::clone(&select.field))),
            // What has no fields has not this one.
            _ => None,
        };
        match found {
            found if select.test => Ok(Val::Bool(found.is_some())),
            found if optional => Ok(Val::Optional(found.map(Arc::new))),
            Some(value) => Ok(value),
            None => Err(Failure::new(format!("no such key: {}", select.field))),
        }
    }

    fn index(&mut self, index: &'a Index) -> Result<Val<'a>> {
        let of = self.node(&index.of)?;
        let at = self.node(&index.at)?;
        self.spend(1)?;
        let (of, was_optional) = match of {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => ((*inner).clone(), true),
            of => (of, false),
        };
        let found = lookup(&of, &at);
        if !(index.optional || was_optional) {
            return found;
        }
        match found {
            Ok(value) => Ok(Val::some(value)),
            Err(Failure::Error(_)) => Ok(Val::Optional(None)),
            Err(failure) => Err(failure),
        }
    }

    fn fold(&mut self, fold: &'a Fold) -> Result<Val<'a>> {
        let over = self.node(&fold.over)?;
        let init = self.node(&fold.init)?;
        let depth = self.locals.len();
        self.locals.push(init);
        let result = self.loops(fold, &over, depth);
        self.locals.truncate(depth + 1);
        let result = result.and_then(|()| self.node(&fold.result));
        self.locals.truncate(depth);
        result
    }

    fn loops(&mut self, fold: &'a Fold, over: &Val<'a>, depth: usize) -> Result<()> {
        match over {
            Val::List(list) => {
                for at in 0..list.len() {
                    let Some(item) = list.get(at) else { break };
                    let index = Val::Int(i64::try_from(at).unwrap_or(i64::MAX));
                    let vars = if fold.two { (index, Some(item)) } else { (item, None) };
                    if !self.turn(fold, depth, vars)? {
                        break;
                    }
                }
            }
            Val::Map(map) => {
                for (key, value) in map.entries() {
                    if !self.turn(fold, depth, (key, fold.two.then_some(value)))? {
                        break;
                    }
                }
            }
            _ => return Err(Failure::overload()),
        }
        Ok(())
    }

    /// One turn of a loop; whether there is another.
    fn turn(&mut self, fold: &'a Fold, depth: usize, vars: (Val<'a>, Option<Val<'a>>)) -> Result<bool> {
        self.loops += 1;
        if self.loops.is_multiple_of(PATIENCE) && self.limits.interrupted.is_some_and(|ask| ask()) {
            return Err(Failure::Interrupted);
        }
        self.locals.truncate(depth + 1);
        self.locals.push(vars.0);
        self.locals.extend(vars.1);
        if !matches!(self.node(&fold.cond)?, Val::Bool(true)) {
            return Ok(false);
        }
        let next = self.step(&fold.step, depth);
        let next = match next {
            // An error is carried on as the accumulator: `all` and `exists` may still find what decides.
            Err(Failure::Error(text)) if lenient(&fold.step) => Val::Failed(Arc::from(text)),
            other => other?,
        };
        if let Some(slot) = self.locals.get_mut(depth) {
            *slot = next;
        }
        Ok(true)
    }

    /// The next accumulator. What is appended to a list or map that nobody else holds is appended in place.
    fn step(&mut self, step: &'a Node, depth: usize) -> Result<Val<'a>> {
        let Node::Call(function, args) = step else { return self.node(step) };
        let [Node::Local(at), added @ ..] = args.as_slice() else { return self.node(step) };
        if *at != depth || !matches!(function.name, "_+_" | "cel.@mapInsert") {
            return self.node(step);
        }
        let added = added.iter().map(|arg| self.node(arg)).collect::<Result<Vec<_>>>()?;
        self.spend(1)?;
        let Some(slot) = self.locals.get_mut(depth) else { return Err(Failure::overload()) };
        let taken = std::mem::replace(slot, Val::Null);
        if let (Val::List(List::Made(mut list)), [Val::List(more)]) = (taken.clone(), added.as_slice()) {
            drop(taken);
            Arc::make_mut(&mut list).extend(more.iter());
            self.spend(1)?;
            return Ok(Val::List(List::Made(list)));
        }
        if let (Val::Map(Map::Made(mut map)), [key, value]) = (taken.clone(), added.as_slice()) {
            drop(taken);
            if !Arc::make_mut(&mut map).insert(key.clone(), value.clone())? {
                return Err(Failure::new(format!("insert failed: key {} already exists", shown(key))));
            }
            self.spend(1)?;
            return Ok(Val::Map(Map::Made(map)));
        }
        let args: Vec<Val<'a>> = std::iter::once(taken).chain(added).collect();
        let result = (function.run)(&args);
        self.spend(cost::call(function.name, &args, result.as_ref().ok()))?;
        result
    }
}

/// Whether a step is `&&` or `||`, which forgive errors.
fn lenient(step: &Node) -> bool {
    matches!(step, Node::And(_) | Node::Or(_))
}

/// The item of a list or the value of a map.
fn lookup<'a>(of: &Val<'a>, at: &Val<'a>) -> Result<Val<'a>> {
    match of {
        Val::List(list) => {
            let Some(Key::Int(index)) = at.key() else {
                return Err(Failure::new(match at {
                    Val::Double(value) => format!("unsupported index value {value} in list"),
                    other => format!("unsupported index type '{}' in list", other.type_of().name()),
                }));
            };
            let found = usize::try_from(index).ok().and_then(|index| list.get(index));
            found.ok_or_else(|| Failure::new(format!("index out of bounds: {index}")))
        }
        Val::Map(map) => {
            let found = at.key().and_then(|key| map.get(&key));
            found.ok_or_else(|| Failure::new(format!("no such key: {}", shown(at))))
        }
        _ => Err(Failure::overload()),
    }
}

/// A key in an error text.
pub(crate) fn shown(key: &Val<'_>) -> String {
    match key {
        Val::Text(text) => text.to_string(),
        other => format!("{other:?}"),
    }
}

/// Text that outlives the evaluation, from a program.
pub(crate) fn name(text: &str) -> Text<'_> {
    Text::Borrowed(text)
}
