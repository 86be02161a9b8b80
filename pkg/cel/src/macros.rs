//! The macros of Kubernetes' environment: the language's own, two-variable comprehensions, and those of optionals.

use cel::{
    Env, ParseError,
    common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr},
    parser::{Macro, MacroExprHelper},
};

/// The accumulator of comprehensions.
pub(crate) const RESULT: &str = "@result";

type Args<'a> = &'a mut Vec<IdedExpr>;
type Expanded = Result<Option<IdedExpr>, ParseError>;

/// Builds expressions at the place of the expanded call.
struct Make<'h, 'p>(&'h mut MacroExprHelper<'p>);

impl Make<'_, '_> {
    fn expr(&mut self, expr: Expr) -> IdedExpr {
        self.0.next_expr(expr)
    }

    fn ident(&mut self, name: &str) -> IdedExpr {
        self.expr(Expr::Ident(name.to_owned()))
    }

    fn result(&mut self) -> IdedExpr {
        self.ident(RESULT)
    }

    fn bool(&mut self, value: bool) -> IdedExpr {
        self.expr(Expr::Literal(LiteralValue::Boolean(value.into())))
    }

    fn int(&mut self, value: i64) -> IdedExpr {
        self.expr(Expr::Literal(LiteralValue::Int(value.into())))
    }

    fn list(&mut self, elements: Vec<IdedExpr>) -> IdedExpr {
        self.expr(Expr::List(ListExpr::new(elements)))
    }

    fn call(&mut self, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
    }

    fn member(&mut self, target: IdedExpr, name: &str) -> IdedExpr {
        let target = Some(Box::new(target));
        self.expr(Expr::Call(CallExpr { func_name: name.to_owned(), target, args: Vec::new() }))
    }

    /// Takes the next argument, which must be a name.
    fn name(&mut self, args: Args<'_>, text: &str) -> Result<String, ParseError> {
        let arg = args.remove(0);
        match arg.expr {
            Expr::Ident(name) if name == RESULT || name == "__result__" => {
                Err(self.0.new_error(arg.id, "iteration variable overwrites accumulator variable"))
            }
            Expr::Ident(name) => Ok(name),
            _ => Err(self.0.new_error(arg.id, text)),
        }
    }

    fn fold(&mut self, over: IdedExpr, vars: Vars, parts: Fold) -> IdedExpr {
        self.expr(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: over,
            iter_var: vars.0,
            iter_var2: vars.1,
            accu_var: RESULT.to_owned(),
            accu_init: parts.init,
            loop_cond: parts.cond,
            loop_step: parts.step,
            result: parts.result,
        })))
    }

    /// An expression with a name for a value: a loop over nothing, whose accumulator is the value.
    fn bound(&mut self, name: String, value: IdedExpr, expression: IdedExpr) -> IdedExpr {
        let (over, cond) = (self.list(Vec::new()), self.bool(false));
        let step = self.ident(&name);
        self.expr(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: over,
            iter_var: "#unused".to_owned(),
            iter_var2: None,
            accu_var: name,
            accu_init: value,
            loop_cond: cond,
            loop_step: step,
            result: expression,
        })))
    }

    /// What `all`, `exists`, `existsOne`, … loop over.
    fn quantified(&mut self, kind: Quantifier, predicate: IdedExpr) -> Fold {
        match kind {
            Quantifier::All => {
                let result = self.result();
                let cond = self.call("@not_strictly_false", vec![result]);
                let args = vec![self.result(), predicate];
                let step = self.call("_&&_", args);
                Fold { init: self.bool(true), cond, step, result: self.result() }
            }
            Quantifier::Exists => {
                let result = self.result();
                let not = self.call("!_", vec![result]);
                let cond = self.call("@not_strictly_false", vec![not]);
                let args = vec![self.result(), predicate];
                let step = self.call("_||_", args);
                Fold { init: self.bool(false), cond, step, result: self.result() }
            }
            Quantifier::One => {
                let args = vec![self.result(), self.int(1)];
                let more = self.call("_+_", args);
                let args = vec![predicate, more, self.result()];
                let step = self.call("_?_:_", args);
                let args = vec![self.result(), self.int(1)];
                let result = self.call("_==_", args);
                Fold { init: self.int(0), cond: self.bool(true), step, result }
            }
        }
    }

    /// `step` where `filter` holds, else what there was.
    fn only(&mut self, filter: Option<IdedExpr>, step: IdedExpr) -> IdedExpr {
        let Some(filter) = filter else { return step };
        let args = vec![filter, step, self.result()];
        self.call("_?_:_", args)
    }

    /// A loop that gathers in a list.
    fn gather(&mut self, filter: Option<IdedExpr>, item: IdedExpr) -> Fold {
        let item = self.list(vec![item]);
        let args = vec![self.result(), item];
        let step = self.call("_+_", args);
        let step = self.only(filter, step);
        Fold { init: self.list(Vec::new()), cond: self.bool(true), step, result: self.result() }
    }

    /// A loop that inserts into a map.
    fn insert(&mut self, filter: Option<IdedExpr>, entry: Vec<IdedExpr>) -> Fold {
        let mut args = vec![self.result()];
        args.extend(entry);
        let step = self.call("cel.@mapInsert", args);
        let step = self.only(filter, step);
        let init = self.expr(Expr::Map(MapExpr::default()));
        Fold { init, cond: self.bool(true), step, result: self.result() }
    }
}

struct Vars(String, Option<String>);

struct Fold {
    init: IdedExpr,
    cond: IdedExpr,
    step: IdedExpr,
    result: IdedExpr,
}

#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    One,
}

const SIMPLE: &str = "argument must be a simple name";
const IDENTIFIER: &str = "argument is not an identifier";
const FIRST: &str = "first variable name must be a simple identifier";
const SECOND: &str = "second variable name must be a simple identifier";

fn has(helper: &mut MacroExprHelper<'_>, _: &mut Option<IdedExpr>, args: Args<'_>) -> Expanded {
    let arg = args.remove(0);
    match arg.expr {
        Expr::Select(mut select) => {
            select.test = true;
            Ok(Some(helper.next_expr(Expr::Select(select))))
        }
        _ => Err(helper.new_error(arg.id, "invalid argument to has() macro")),
    }
}

/// The names of a comprehension with one or two variables.
fn vars(make: &mut Make<'_, '_>, args: Args<'_>, two: bool, text: &str) -> Result<Vars, ParseError> {
    if !two {
        return Ok(Vars(make.name(args, text)?, None));
    }
    let at = args.get(1).map_or(0, |arg| arg.id);
    let (first, second) = (make.name(args, FIRST)?, make.name(args, SECOND)?);
    if first == second {
        let text = format!("duplicate variable name: {first}");
        return Err(make.0.new_error(at, text));
    }
    Ok(Vars(first, Some(second)))
}

fn quantifier(
    kind: Quantifier,
    two: bool,
) -> impl Fn(&mut MacroExprHelper<'_>, &mut Option<IdedExpr>, &mut Vec<IdedExpr>) -> Expanded {
    move |helper, target, args| {
        let mut make = Make(helper);
        let names = vars(&mut make, args, two, SIMPLE)?;
        let Some((over, predicate)) = target.take().zip(args.pop()) else { return Ok(None) };
        let parts = make.quantified(kind, predicate);
        Ok(Some(make.fold(over, names, parts)))
    }
}

/// `map(x, f)`, `map(x, p, f)`, `transformList(i, x, f)`, `transformList(i, x, p, f)`.
fn map(
    two: bool,
) -> impl Fn(&mut MacroExprHelper<'_>, &mut Option<IdedExpr>, &mut Vec<IdedExpr>) -> Expanded {
    move |helper, target, args| {
        let mut make = Make(helper);
        let names = vars(&mut make, args, two, IDENTIFIER)?;
        let Some((over, item)) = target.take().zip(args.pop()) else { return Ok(None) };
        let parts = make.gather(args.pop(), item);
        Ok(Some(make.fold(over, names, parts)))
    }
}

fn filter(helper: &mut MacroExprHelper<'_>, target: &mut Option<IdedExpr>, args: Args<'_>) -> Expanded {
    let mut make = Make(helper);
    let item = args.first().cloned();
    let names = vars(&mut make, args, false, IDENTIFIER)?;
    let Some(((over, predicate), item)) = target.take().zip(args.pop()).zip(item) else { return Ok(None) };
    let parts = make.gather(Some(predicate), item);
    Ok(Some(make.fold(over, names, parts)))
}

/// `transformMap(k, v, f)` and `transformMapEntry(k, v, {…})`, each with an optional filter before.
fn transform_map(
    entries: bool,
) -> impl Fn(&mut MacroExprHelper<'_>, &mut Option<IdedExpr>, &mut Vec<IdedExpr>) -> Expanded {
    move |helper, target, args| {
        let mut make = Make(helper);
        let names = vars(&mut make, args, true, IDENTIFIER)?;
        let Some((over, value)) = target.take().zip(args.pop()) else { return Ok(None) };
        let filter = args.pop();
        let entry = if entries { vec![value] } else { vec![make.ident(&names.0), value] };
        let parts = make.insert(filter, entry);
        Ok(Some(make.fold(over, names, parts)))
    }
}

/// `optMap(x, f)` and `optFlatMap(x, f)`.
fn opt_map(
    flat: bool,
) -> impl Fn(&mut MacroExprHelper<'_>, &mut Option<IdedExpr>, &mut Vec<IdedExpr>) -> Expanded {
    move |helper, target, args| {
        let mut make = Make(helper);
        let method = if flat { "optFlatMap()" } else { "optMap()" };
        let name = make.name(args, &format!("{method} variable name must be a simple identifier"))?;
        let Some((target, mapped)) = target.take().zip(args.pop()) else { return Ok(None) };
        let present = make.member(target.clone(), "hasValue");
        let value = make.member(target, "value");
        let bound = make.bound(name, value, mapped);
        let then = if flat { bound } else { make.call("optional.of", vec![bound]) };
        let none = make.call("optional.none", Vec::new());
        Ok(Some(make.call("_?_:_", vec![present, then, none])))
    }
}

/// `cel.bind(x, value, expression)`: the expression with a name for a value.
fn bind(helper: &mut MacroExprHelper<'_>, target: &mut Option<IdedExpr>, args: Args<'_>) -> Expanded {
    if !matches!(target, Some(IdedExpr { expr: Expr::Ident(name), .. }) if name == "cel") {
        return Ok(None);
    }
    let mut make = Make(helper);
    let name = make.name(args, "cel.bind() variable names must be simple identifiers")?;
    let Some((mapped, value)) = args.pop().zip(args.pop()) else { return Ok(None) };
    Ok(Some(make.bound(name, value, mapped)))
}

/// `sortBy(x, key)`: sorted by a list of keys.
fn sort_by(helper: &mut MacroExprHelper<'_>, target: &mut Option<IdedExpr>, args: Args<'_>) -> Expanded {
    let mut make = Make(helper);
    let names = vars(&mut make, args, false, IDENTIFIER)?;
    let Some((over, key)) = target.take().zip(args.pop()) else { return Ok(None) };
    let parts = make.gather(None, key);
    let keys = make.fold(over.clone(), names, parts);
    let func_name = "@sortByAssociatedKeys".to_owned();
    Ok(Some(make.expr(Expr::Call(CallExpr { func_name, target: Some(Box::new(over)), args: vec![keys] }))))
}

/// The parser's environment: macros, and nothing else of the crate's.
pub(crate) fn env(bindings: bool) -> Env {
    use Quantifier::{All, Exists, One};
    let mut env = Env::default();
    let all = [
        Macro::global("has", 1, has),
        Macro::receiver("all", 2, quantifier(All, false)),
        Macro::receiver("all", 3, quantifier(All, true)),
        Macro::receiver("exists", 2, quantifier(Exists, false)),
        Macro::receiver("exists", 3, quantifier(Exists, true)),
        Macro::receiver("exists_one", 2, quantifier(One, false)),
        Macro::receiver("existsOne", 2, quantifier(One, false)),
        Macro::receiver("existsOne", 3, quantifier(One, true)),
        Macro::receiver("map", 2, map(false)),
        Macro::receiver("map", 3, map(false)),
        Macro::receiver("filter", 2, filter),
        Macro::receiver("transformList", 3, map(true)),
        Macro::receiver("transformList", 4, map(true)),
        Macro::receiver("transformMap", 3, transform_map(false)),
        Macro::receiver("transformMap", 4, transform_map(false)),
        Macro::receiver("transformMapEntry", 3, transform_map(true)),
        Macro::receiver("transformMapEntry", 4, transform_map(true)),
        Macro::receiver("optMap", 2, opt_map(false)),
        Macro::receiver("optFlatMap", 2, opt_map(true)),
        Macro::receiver("sortBy", 2, sort_by),
    ];
    let bind = bindings.then(|| Macro::receiver("bind", 3, bind));
    for expansion in all.into_iter().chain(bind) {
        env.add_macro(expansion).expect("the names and counts of arguments above differ");
    }
    env
}
