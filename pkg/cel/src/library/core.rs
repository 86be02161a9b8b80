//! Operators and conversions of the language itself.

use std::{cmp::Ordering, sync::Arc};

use super::{Opaque, format, time};
use crate::{
    functions::Function,
    value::{Failure, Key, List, Made, Map, Result, Text, Val, compare},
};

mod arithmetic;

use arithmetic::{add, divide, modulo, multiply, negate, subtract};

const ORDER: &[&str] = &[
    "(bool, bool) bool",
    "(int, int) bool",
    "(int, double) bool",
    "(int, uint) bool",
    "(uint, uint) bool",
    "(uint, double) bool",
    "(uint, int) bool",
    "(double, double) bool",
    "(double, int) bool",
    "(double, uint) bool",
    "(string, string) bool",
    "(bytes, bytes) bool",
    "(timestamp, timestamp) bool",
    "(duration, duration) bool",
];

pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "_?_:_", overloads: &["(bool, A, A) A"], run: |_| Err(Failure::overload()) },
    Function { name: "_&&_", overloads: &["(bool, bool) bool"], run: |_| Err(Failure::overload()) },
    Function { name: "_||_", overloads: &["(bool, bool) bool"], run: |_| Err(Failure::overload()) },
    Function { name: "@not_strictly_false", overloads: &["(bool) bool"], run: |_| Err(Failure::overload()) },
    Function {
        name: "!_",
        overloads: &["(bool) bool"],
        run: |args| match args {
            [Val::Bool(value)] => Ok(Val::Bool(!value)),
            _ => Err(Failure::overload()),
        },
    },
    Function { name: "_==_", overloads: &["(A, A) bool"], run: |args| pair(args, compare::equal) },
    Function {
        name: "_!=_",
        overloads: &["(A, A) bool"],
        run: |args| pair(args, |a, b| !compare::equal(a, b)),
    },
    Function { name: "_<_", overloads: ORDER, run: |args| ordered(args, Ordering::is_lt) },
    Function { name: "_<=_", overloads: ORDER, run: |args| ordered(args, Ordering::is_le) },
    Function { name: "_>_", overloads: ORDER, run: |args| ordered(args, Ordering::is_gt) },
    Function { name: "_>=_", overloads: ORDER, run: |args| ordered(args, Ordering::is_ge) },
    Function {
        name: "_+_",
        overloads: &[
            "(bytes, bytes) bytes",
            "(double, double) double",
            "(duration, duration) duration",
            "(duration, timestamp) timestamp",
            "(timestamp, duration) timestamp",
            "(int, int) int",
            "(list<A>, list<A>) list<A>",
            "(string, string) string",
            "(uint, uint) uint",
        ],
        run: add,
    },
    Function {
        name: "_-_",
        overloads: &[
            "(double, double) double",
            "(duration, duration) duration",
            "(int, int) int",
            "(timestamp, duration) timestamp",
            "(timestamp, timestamp) duration",
            "(uint, uint) uint",
        ],
        run: subtract,
    },
    Function {
        name: "_*_",
        overloads: &["(double, double) double", "(int, int) int", "(uint, uint) uint"],
        run: multiply,
    },
    Function {
        name: "_/_",
        overloads: &["(double, double) double", "(int, int) int", "(uint, uint) uint"],
        run: divide,
    },
    Function { name: "_%_", overloads: &["(int, int) int", "(uint, uint) uint"], run: modulo },
    Function { name: "-_", overloads: &["(double) double", "(int) int"], run: negate },
    Function {
        name: "_[_]",
        overloads: &[
            "(list<A>, int) A",
            "(map<A, B>, A) B",
            "(optional<list<A>>, int) optional<A>",
            "(optional<map<A, B>>, A) optional<B>",
        ],
        run: |_| Err(Failure::overload()),
    },
    Function {
        name: "_[?_]",
        overloads: &[
            "(list<A>, int) optional<A>",
            "(optional<list<A>>, int) optional<A>",
            "(map<A, B>, A) optional<B>",
            "(optional<map<A, B>>, A) optional<B>",
        ],
        run: |_| Err(Failure::overload()),
    },
    Function { name: "@in", overloads: &["(A, list<A>) bool", "(A, map<A, B>) bool"], run: contained },
    Function {
        name: "size",
        overloads: &[
            "(bytes) int",
            "bytes.() int",
            "(list<A>) int",
            "list<A>.() int",
            "(map<A, B>) int",
            "map<A, B>.() int",
            "(string) int",
            "string.() int",
        ],
        run: |args| match args {
            [value] => value.size().map(int).ok_or_else(|| Failure::new("no such overload: size")),
            _ => Err(Failure::overload()),
        },
    },
    Function {
        name: "type",
        overloads: &["(A) type<A>"],
        run: |args| args.first().map(|v| Val::Type(Arc::new(v.type_of()))).ok_or_else(Failure::overload),
    },
    Function {
        name: "dyn",
        overloads: &["(A) dyn"],
        run: |args| args.first().cloned().ok_or_else(Failure::overload),
    },
    Function { name: "bool", overloads: &["(bool) bool", "(string) bool"], run: boolean },
    Function { name: "bytes", overloads: &["(bytes) bytes", "(string) bytes"], run: bytes },
    Function {
        name: "double",
        overloads: &["(double) double", "(int) double", "(string) double", "(uint) double"],
        run: arithmetic::double,
    },
    Function {
        name: "int",
        overloads: &[
            "(int) int",
            "(double) int",
            "(duration) int",
            "(string) int",
            "(timestamp) int",
            "(uint) int",
        ],
        run: arithmetic::int,
    },
    Function {
        name: "uint",
        overloads: &["(uint) uint", "(double) uint", "(int) uint", "(string) uint"],
        run: arithmetic::uint,
    },
    Function {
        name: "cel.@mapInsert",
        overloads: &["(map<K, V>, K, V) map<K, V>", "(map<K, V>, map<K, V>) map<K, V>"],
        run: map_insert,
    },
];

/// A count as a value.
pub(crate) fn int(n: usize) -> Val<'static> {
    Val::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

fn pair<'a>(args: &[Val<'a>], holds: fn(&Val<'a>, &Val<'a>) -> bool) -> Result<Val<'a>> {
    match args {
        [a, b] => Ok(Val::Bool(holds(a, b))),
        _ => Err(Failure::overload()),
    }
}

fn ordered<'a>(args: &[Val<'a>], holds: fn(Ordering) -> bool) -> Result<Val<'a>> {
    match args {
        [a, b] => compare::order(a, b).map(|order| Val::Bool(holds(order))),
        _ => Err(Failure::overload()),
    }
}

fn contained<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [item, Val::List(list)] => Ok(Val::Bool(list.iter().any(|other| compare::equal(item, &other)))),
        [key, Val::Map(map)] => Ok(Val::Bool(key.key().is_some_and(|key| map.get(&key).is_some()))),
        _ => Err(Failure::overload()),
    }
}

fn map_insert<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let (Some(Val::Map(map)), more) = (args.first(), args.get(1..).unwrap_or_default()) else {
        return Err(Failure::overload());
    };
    let mut made = Made::default();
    for (key, value) in map.entries() {
        made.insert(key, value)?;
    }
    let added = match more {
        [key, value] => vec![(key.clone(), value.clone())],
        [Val::Map(more)] => more.entries(),
        _ => return Err(Failure::overload()),
    };
    for (key, value) in added {
        if !made.insert(key.clone(), value)? {
            return Err(Failure::new(format!(
                "insert failed: key {} already exists",
                crate::eval::shown(&key)
            )));
        }
    }
    Ok(Val::Map(Map::Made(Arc::new(made))))
}

fn boolean<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Bool(value)] => Ok(Val::Bool(*value)),
        [Val::Text(text)] => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Val::Bool(false)),
            _ => Err(Failure::new("type conversion error from 'string' to 'bool'")),
        },
        _ => Err(Failure::overload()),
    }
}

fn bytes<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Bytes(bytes)] => Ok(Val::Bytes(Arc::clone(bytes))),
        [Val::Text(text)] => Ok(Val::Bytes(Arc::from(text.as_bytes()))),
        _ => Err(Failure::overload()),
    }
}

/// `string()`
pub(crate) fn string<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let [value] = args else { return Err(Failure::overload()) };
    Ok(match value {
        Val::Text(text) => Val::Text(text.clone()),
        Val::Bool(value) => Val::text(value.to_string()),
        Val::Int(value) => Val::text(value.to_string()),
        Val::Uint(value) => Val::text(value.to_string()),
        Val::Double(value) => Val::text(format::double(*value)),
        Val::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Val::text(text),
            Err(_) => return Err(Failure::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Val::Duration(nanos) => Val::text(time::seconds(*nanos)),
        Val::Time(at) => Val::text(time::rfc3339(*at)),
        Val::Opaque(Opaque::Ip(ip)) => Val::text(ip.to_string()),
        Val::Opaque(Opaque::Cidr(ip, length)) => Val::text(format!("{ip}/{length}")),
        _ => return Err(Failure::overload()),
    })
}

/// A text argument.
pub(crate) fn text<'v, 'a>(value: Option<&'v Val<'a>>) -> Result<&'v Text<'a>> {
    match value {
        Some(Val::Text(text)) => Ok(text),
        _ => Err(Failure::overload()),
    }
}

/// A list argument.
pub(crate) fn list<'v, 'a>(value: Option<&'v Val<'a>>) -> Result<&'v List<'a>> {
    match value {
        Some(Val::List(list)) => Ok(list),
        _ => Err(Failure::overload()),
    }
}

/// A list of texts.
pub(crate) fn texts<'a>(items: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Val<'a> {
    Val::made(items.into_iter().map(|item| Val::text(item)).collect())
}

/// The key that text is.
pub(crate) fn key(text: &str) -> Key {
    Key::Text(Arc::from(text))
}
