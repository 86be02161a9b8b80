//! Optional values.

use std::sync::Arc;

use super::core::list;
use crate::{
    functions::Function,
    value::{Failure, Result, Val},
};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "optional.of",
        overloads: &["(V) optional<V>"],
        run: |args| args.first().cloned().map(Val::some).ok_or_else(Failure::overload),
    },
    Function {
        name: "optional.ofNonZeroValue",
        overloads: &["(V) optional<V>"],
        run: |args| {
            let value = args.first().ok_or_else(Failure::overload)?;
            Ok(Val::Optional((!zero(value)).then(|| Arc::new(value.clone()))))
        },
    },
    Function { name: "optional.none", overloads: &["() optional<V>"], run: |_| Ok(Val::Optional(None)) },
    Function { name: "optional.unwrap", overloads: &["(list<optional<V>>) list<V>"], run: unwrap },
    Function { name: "unwrapOpt", overloads: &["list<optional<V>>.() list<V>"], run: unwrap },
    Function {
        name: "value",
        overloads: &["optional<V>.() V"],
        run: |args| match args {
            [Val::Optional(Some(value))] => Ok((**value).clone()),
            [Val::Optional(None)] => Err(Failure::new("optional.none() dereference")),
            _ => Err(Failure::overload()),
        },
    },
    Function {
        name: "hasValue",
        overloads: &["optional<V>.() bool"],
        run: |args| match args {
            [Val::Optional(value)] => Ok(Val::Bool(value.is_some())),
            _ => Err(Failure::overload()),
        },
    },
    Function {
        name: "orValue",
        overloads: &["optional<V>.(V) V"],
        run: |args| match args {
            [Val::Optional(Some(value)), _] => Ok((**value).clone()),
            [Val::Optional(None), other] => Ok(other.clone()),
            _ => Err(Failure::overload()),
        },
    },
];

/// `or()`
pub(crate) fn or<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Optional(None), other @ Val::Optional(_)] => Ok(other.clone()),
        [value @ Val::Optional(Some(_)), Val::Optional(_)] => Ok(value.clone()),
        _ => Err(Failure::overload()),
    }
}

fn zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Optional(None) | Val::Duration(0) | Val::Int(0) | Val::Uint(0) => true,
        Val::Bool(value) => !value,
        Val::Double(value) => *value == 0.0,
        other => other.size() == Some(0),
    }
}

fn unwrap<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let mut out = Vec::new();
    for item in list(args.first())?.iter() {
        match item {
            Val::Optional(Some(value)) => out.push((*value).clone()),
            Val::Optional(None) => {}
            _ => return Err(Failure::overload()),
        }
    }
    Ok(Val::made(out))
}
