//! What calls cost, as upstream counts.

use crate::{library::Opaque, value::Val};

/// Making a list.
pub(crate) const LIST: u64 = 10;
/// Making a map.
pub(crate) const MAP: u64 = 30;
/// Making an object.
pub(crate) const STRUCT: u64 = 40;
/// An authorization check: two fit into one expression.
const CHECK: u64 = 350_000;

fn size(value: Option<&Val<'_>>) -> u64 {
    match value {
        Some(Val::Optional(Some(inner))) => size(Some(inner)),
        Some(Val::Opaque(value)) => value.size(),
        Some(value) => value.size().map_or(1, |n| n as u64),
        None => 1,
    }
}

/// Tenths, rounded up: reading text costs a tenth of a unit a character.
fn tenth(n: u64) -> u64 {
    n.div_ceil(10)
}

/// A regular expression over text; a pattern is taken to be one state for four characters.
fn pattern(text: u64, pattern: u64) -> u64 {
    tenth(text.saturating_add(1)).saturating_mul(pattern.div_ceil(4))
}

/// Going through a list: an item costs what reading it costs.
fn traversal(value: Option<&Val<'_>>) -> u64 {
    match value {
        Some(Val::List(list)) => list.iter().fold(0, |sum, item| {
            let item = match &item {
                Val::Text(_) | Val::Bytes(_) => tenth(size(Some(&item))) + 1,
                Val::List(_) => traversal(Some(&item)) + 1,
                _ => 1,
            };
            sum + item
        }),
        Some(Val::Text(_) | Val::Bytes(_)) => tenth(size(value)),
        _ => 1,
    }
}

/// The cost of a call; `result` is `None` when it failed.
pub(crate) fn call(name: &str, args: &[Val<'_>], result: Option<&Val<'_>>) -> u64 {
    let arg = |at: usize| size(args.get(at));
    match name {
        "check" => CHECK,
        "fieldSelector" | "labelSelector" => LIST + tenth(arg(1)) + (arg(1) * (LIST + STRUCT)).div_ceil(2),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
            traversal(args.first())
        }
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => tenth(arg(0)),
        "ip" => {
            if matches!(args.first(), Some(Val::Text(_))) {
                tenth(arg(0))
            } else {
                1
            }
        }
        "ip.isCanonical" | "replace" | "split" => tenth(arg(0) * 2),
        "join" => tenth(size(result) * 2),
        "find" | "findAll" | "matches" => pattern(arg(0), arg(1)),
        "containsIP" => tenth(arg(0) * 2) + text(args.get(1)),
        "containsCIDR" => tenth(arg(0) * 2) + tenth(arg(0)) + 1 + text(args.get(1)),
        "validate" => match args.first() {
            Some(Val::Opaque(Opaque::Format(format))) => pattern(arg(1), format.longest),
            _ => 1,
        },
        "startsWith" | "endsWith" => tenth(arg(1)),
        "contains" => tenth(arg(0)) * tenth(arg(1)),
        "bytes" | "format" | "strings.quote" => tenth(arg(0)),
        "string" if matches!(args.first(), Some(Val::Bytes(_))) => tenth(arg(0)),
        "@in" => match args.get(1) {
            Some(Val::List(list)) => list.len() as u64,
            _ => 1,
        },
        "_==_" | "_!=_" => match args.first() {
            Some(Val::Opaque(_)) => 1,
            _ => tenth(arg(0).min(arg(1))),
        },
        "_<_" | "_<=_" | "_>_" | "_>=_" => match args.first() {
            Some(Val::Text(_) | Val::Bytes(_)) => tenth(arg(0).min(arg(1))),
            _ => 1,
        },
        "_+_" => match args.first() {
            Some(Val::Text(_) | Val::Bytes(_)) => tenth(arg(0) + arg(1)),
            _ => 1,
        },
        _ => allocation(name, args, result),
    }
}

/// What functions that make lists cost.
fn allocation(name: &str, args: &[Val<'_>], result: Option<&Val<'_>>) -> u64 {
    let arg = |at: usize| size(args.get(at));
    match name {
        "slice" | "lists.range" | "reverse" => size(result).max(1) + LIST,
        "flatten" => size(result).max(arg(0)) + LIST,
        "distinct" => arg(0).saturating_mul(arg(0)) + LIST,
        "sort" | "@sortByAssociatedKeys" => arg(0).saturating_mul(arg(0)) + LIST,
        _ => 1,
    }
}

fn text(value: Option<&Val<'_>>) -> u64 {
    if matches!(value, Some(Val::Text(_))) { tenth(size(value)) } else { 0 }
}
