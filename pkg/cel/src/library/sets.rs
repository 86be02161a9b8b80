//! Lists as sets.

use super::core::list;
use crate::{
    functions::Function,
    value::{List, Result, Val, compare},
};

const TWO: &[&str] = &["(list<T>, list<T>) bool"];

pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "sets.contains", overloads: TWO, run: |args| two(args, contains) },
    Function {
        name: "sets.equivalent",
        overloads: TWO,
        run: |args| two(args, |a, b| contains(a, b) && contains(b, a)),
    },
    Function {
        name: "sets.intersects",
        overloads: TWO,
        run: |args| two(args, |a, b| b.iter().any(|item| has(a, &item))),
    },
];

fn two<'a>(args: &[Val<'a>], holds: fn(&List<'a>, &List<'a>) -> bool) -> Result<Val<'a>> {
    Ok(Val::Bool(holds(list(args.first())?, list(args.get(1))?)))
}

fn has(list: &List<'_>, item: &Val<'_>) -> bool {
    list.iter().any(|other| compare::equal(&other, item))
}

fn contains(list: &List<'_>, part: &List<'_>) -> bool {
    part.iter().all(|item| has(list, &item))
}
