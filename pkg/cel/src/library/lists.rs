//! Functions on lists.

use std::{cmp::Ordering, sync::Arc};

use super::core::{int, list};
use crate::{
    functions::Function,
    value::{Failure, List, Result, Val, compare},
};

const SORTED: &[&str] = &[
    "list<int>.() bool",
    "list<uint>.() bool",
    "list<double>.() bool",
    "list<bool>.() bool",
    "list<duration>.() bool",
    "list<timestamp>.() bool",
    "list<string>.() bool",
    "list<bytes>.() bool",
];
const ONE: &[&str] = &[
    "list<int>.() int",
    "list<uint>.() uint",
    "list<double>.() double",
    "list<bool>.() bool",
    "list<duration>.() duration",
    "list<timestamp>.() timestamp",
    "list<string>.() string",
    "list<bytes>.() bytes",
];
const SORT: &[&str] = &[
    "list<int>.() list<int>",
    "list<uint>.() list<uint>",
    "list<double>.() list<double>",
    "list<bool>.() list<bool>",
    "list<duration>.() list<duration>",
    "list<timestamp>.() list<timestamp>",
    "list<string>.() list<string>",
    "list<bytes>.() list<bytes>",
];
const SORT_BY: &[&str] = &[
    "list<A>.(list<int>) list<A>",
    "list<A>.(list<uint>) list<A>",
    "list<A>.(list<double>) list<A>",
    "list<A>.(list<bool>) list<A>",
    "list<A>.(list<duration>) list<A>",
    "list<A>.(list<timestamp>) list<A>",
    "list<A>.(list<string>) list<A>",
    "list<A>.(list<bytes>) list<A>",
];

pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "isSorted", overloads: SORTED, run: is_sorted },
    Function {
        name: "sum",
        overloads: &[
            "list<int>.() int",
            "list<uint>.() uint",
            "list<double>.() double",
            "list<duration>.() duration",
        ],
        run: sum,
    },
    Function { name: "max", overloads: ONE, run: |args| extreme(args, "max", Ordering::Greater) },
    Function { name: "min", overloads: ONE, run: |args| extreme(args, "min", Ordering::Less) },
    Function { name: "slice", overloads: &["list<T>.(int, int) list<T>"], run: slice },
    Function {
        name: "flatten",
        overloads: &["list<list<T>>.() list<T>", "list<dyn>.(int) list<dyn>"],
        run: flatten,
    },
    Function { name: "sort", overloads: SORT, run: sort },
    Function { name: "@sortByAssociatedKeys", overloads: SORT_BY, run: sort_by },
    Function { name: "lists.range", overloads: &["(int) list<int>"], run: range },
    Function {
        name: "reverse",
        overloads: &["list<T>.() list<T>"],
        run: |args| made(list(args.first())?, |v| v.reverse()),
    },
    Function { name: "distinct", overloads: &["list<T>.() list<T>"], run: distinct },
    Function {
        name: "first",
        overloads: &["list<T>.() optional<T>"],
        run: |args| Ok(Val::Optional(list(args.first())?.get(0).map(Arc::new))),
    },
    Function {
        name: "last",
        overloads: &["list<T>.() optional<T>"],
        run: |args| {
            let list = list(args.first())?;
            Ok(Val::Optional(list.len().checked_sub(1).and_then(|at| list.get(at)).map(Arc::new)))
        },
    },
];

fn made<'a>(list: &List<'a>, change: impl FnOnce(&mut Vec<Val<'a>>)) -> Result<Val<'a>> {
    let mut items: Vec<Val<'a>> = list.iter().collect();
    change(&mut items);
    Ok(Val::made(items))
}

/// `indexOf` of a list.
pub(crate) fn index_of<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let (list, item) = (list(args.first())?, args.get(1).ok_or_else(Failure::overload)?);
    let found = list.iter().position(|other| compare::equal(&other, item));
    Ok(found.map_or(Val::Int(-1), int))
}

/// `lastIndexOf` of a list.
pub(crate) fn last_index_of<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let (list, item) = (list(args.first())?, args.get(1).ok_or_else(Failure::overload)?);
    let found =
        (0..list.len()).rev().find(|at| list.get(*at).is_some_and(|other| compare::equal(&other, item)));
    Ok(found.map_or(Val::Int(-1), int))
}

fn is_sorted<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let items: Vec<Val<'a>> = list(args.first())?.iter().collect();
    for pair in items.windows(2) {
        if let [a, b] = pair
            && compare::order(a, b)?.is_gt()
        {
            return Ok(Val::Bool(false));
        }
    }
    Ok(Val::Bool(true))
}

fn sum<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let mut items = list(args.first())?.iter();
    let plus = crate::functions::find("_+_").ok_or_else(Failure::overload)?;
    let Some(first) = items.next() else { return Ok(Val::Int(0)) };
    items.try_fold(first, |sum, item| (plus.run)(&[sum, item]))
}

fn extreme<'a>(args: &[Val<'a>], name: &str, wanted: Ordering) -> Result<Val<'a>> {
    let mut items = list(args.first())?.iter();
    let first = items.next().ok_or_else(|| Failure::new(format!("{name} called on empty list")))?;
    items.try_fold(first, |best, item| Ok(if compare::order(&item, &best)? == wanted { item } else { best }))
}

fn slice<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let (list, [_, Val::Int(start), Val::Int(end)]) = (list(args.first())?, args) else {
        return Err(Failure::overload());
    };
    let wrong = |why: &str| Failure::new(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(wrong("negative indexes not supported"));
    };
    if from > to {
        return Err(wrong("start index must be less than or equal to end index"));
    }
    if to > list.len() {
        return Err(wrong(&format!("list is length {}", list.len())));
    }
    Ok(Val::made((from..to).filter_map(|at| list.get(at)).collect()))
}

fn flatten<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let depth = match args.get(1) {
        Some(Val::Int(depth)) => {
            u64::try_from(*depth).map_err(|_| Failure::new("level must be non-negative"))?
        }
        _ => 1,
    };
    let mut out = Vec::new();
    flat(list(args.first())?, depth, &mut out);
    Ok(Val::made(out))
}

fn flat<'a>(list: &List<'a>, depth: u64, out: &mut Vec<Val<'a>>) {
    for item in list.iter() {
        match item {
            Val::List(inner) if depth > 0 => flat(&inner, depth - 1, out),
            item => out.push(item),
        }
    }
}

fn sort<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let list = list(args.first())?;
    sorted(list, list)
}

fn sort_by<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    sorted(list(args.first())?, list(args.get(1))?)
}

fn sorted<'a>(items: &List<'a>, keys: &List<'a>) -> Result<Val<'a>> {
    let mut pairs: Vec<(Val<'a>, Val<'a>)> = keys.iter().zip(items.iter()).collect();
    let mut wrong = None;
    pairs.sort_by(|(a, _), (b, _)| {
        if std::mem::discriminant(a) != std::mem::discriminant(b) {
            wrong = Some(Failure::new("list elements must have the same type"));
        }
        compare::order(a, b).unwrap_or_else(|_| {
            wrong = Some(Failure::new("list elements must be comparable"));
            Ordering::Equal
        })
    });
    match wrong {
        Some(failure) => Err(failure),
        None => Ok(Val::made(pairs.into_iter().map(|(_, item)| item).collect())),
    }
}

/// The longest list that `lists.range` makes.
const RANGE: i64 = 10_000_000;

fn range<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Int(n)] if *n < 0 => {
            Err(Failure::new(format!("lists.range: size must be non-negative, got {n}")))
        }
        [Val::Int(n)] if *n > RANGE => {
            Err(Failure::new(format!("lists.range: size {n} exceeds maximum allowed ({RANGE})")))
        }
        [Val::Int(n)] => Ok(Val::made((0..*n).map(Val::Int).collect())),
        _ => Err(Failure::overload()),
    }
}

fn distinct<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let mut out: Vec<Val<'a>> = Vec::new();
    for item in list(args.first())?.iter() {
        if !out.iter().any(|other| compare::equal(other, &item)) {
            out.push(item);
        }
    }
    Ok(Val::made(out))
}
