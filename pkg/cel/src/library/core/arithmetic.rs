//! Arithmetic with overflow checks, and conversions of numbers.

use std::sync::Arc;

use super::super::time;
use crate::value::{Failure, List, Result, Val, compare};

const OVERFLOW: &str = "integer overflow";
const UNSIGNED: &str = "unsigned integer overflow";

fn checked<'a>(value: Option<i64>) -> Result<Val<'a>> {
    value.map(Val::Int).ok_or_else(|| Failure::new(OVERFLOW))
}

fn unsigned<'a>(value: Option<u64>) -> Result<Val<'a>> {
    value.map(Val::Uint).ok_or_else(|| Failure::new(UNSIGNED))
}

pub(super) fn add<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Int(a), Val::Int(b)] => checked(a.checked_add(*b)),
        [Val::Uint(a), Val::Uint(b)] => unsigned(a.checked_add(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a + b)),
        [Val::Text(a), Val::Text(b)] => Ok(Val::text(format!("{}{}", &**a, &**b))),
        [Val::Bytes(a), Val::Bytes(b)] => Ok(Val::Bytes(a.iter().chain(b.iter()).copied().collect())),
        [Val::List(a), Val::List(b)] => Ok(lists(a, b)),
        [Val::Duration(a), Val::Duration(b)] => time::duration_of(a.checked_add(*b)),
        [Val::Time(at), Val::Duration(d)] | [Val::Duration(d), Val::Time(at)] => time::shifted(*at, *d),
        _ => Err(Failure::overload()),
    }
}

/// Lists one after the other; sets and keyed lists are merged.
fn lists<'a>(a: &List<'a>, b: &List<'a>) -> Val<'a> {
    use copepod_schema::node::ListType;
    let mut out: Vec<Val<'a>> = a.iter().collect();
    match compare::list_schema(a) {
        Some(schema) if schema.list_type() == ListType::Set => {
            for item in b.iter() {
                if !out.iter().any(|other| compare::equal(other, &item)) {
                    out.push(item);
                }
            }
        }
        Some(schema) if schema.list_type() == ListType::Map => {
            for item in b.iter() {
                match out.iter_mut().find(|other| compare::same_keys(other, &item, schema)) {
                    Some(other) => *other = item,
                    None => out.push(item),
                }
            }
        }
        _ => out.extend(b.iter()),
    }
    Val::List(List::Made(Arc::new(out)))
}

pub(super) fn subtract<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Int(a), Val::Int(b)] => checked(a.checked_sub(*b)),
        [Val::Uint(a), Val::Uint(b)] => unsigned(a.checked_sub(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a - b)),
        [Val::Duration(a), Val::Duration(b)] => time::duration_of(a.checked_sub(*b)),
        [Val::Time(at), Val::Duration(d)] => {
            time::shifted(*at, d.checked_neg().ok_or_else(|| Failure::new("duration overflow"))?)
        }
        [Val::Time(a), Val::Time(b)] => {
            let nanos = a.as_nanosecond() - b.as_nanosecond();
            time::duration_of(i64::try_from(nanos).ok())
        }
        _ => Err(Failure::overload()),
    }
}

pub(super) fn multiply<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Int(a), Val::Int(b)] => checked(a.checked_mul(*b)),
        [Val::Uint(a), Val::Uint(b)] => unsigned(a.checked_mul(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a * b)),
        _ => Err(Failure::overload()),
    }
}

pub(super) fn divide<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(Failure::new("division by zero")),
        [Val::Int(a), Val::Int(b)] => checked(a.checked_div(*b)),
        [Val::Uint(a), Val::Uint(b)] => unsigned(a.checked_div(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a / b)),
        _ => Err(Failure::overload()),
    }
}

pub(super) fn modulo<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(Failure::new("modulus by zero")),
        [Val::Int(a), Val::Int(b)] => checked(a.checked_rem(*b)),
        [Val::Uint(a), Val::Uint(b)] => unsigned(a.checked_rem(*b)),
        _ => Err(Failure::overload()),
    }
}

pub(super) fn negate<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Int(a)] => checked(a.checked_neg()),
        [Val::Double(a)] => Ok(Val::Double(-a)),
        _ => Err(Failure::overload()),
    }
}

fn unparsed(to: &str) -> Failure {
    Failure::new(format!("type conversion error from 'string' to '{to}'"))
}

pub(super) fn int<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Int(value)] => Ok(Val::Int(*value)),
        [Val::Uint(value)] => checked(i64::try_from(*value).ok()),
        [Val::Double(value)] => checked(compare::whole(value.trunc())),
        [Val::Text(text)] => text.parse().map(Val::Int).map_err(|_| unparsed("int")),
        [Val::Time(at)] => Ok(Val::Int(at.as_second())),
        [Val::Duration(nanos)] => Ok(Val::Int(*nanos)),
        _ => Err(Failure::overload()),
    }
}

pub(super) fn uint<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Uint(value)] => Ok(Val::Uint(*value)),
        [Val::Int(value)] => unsigned(u64::try_from(*value).ok()),
        [Val::Double(value)] => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the range is checked"
            )]
            let whole = (*value >= 0.0 && *value < 1.844_674_407_370_955_2e19).then_some(*value as u64);
            unsigned(whole)
        }
        [Val::Text(text)] => text.parse().map(Val::Uint).map_err(|_| unparsed("uint")),
        _ => Err(Failure::overload()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "the language's conversion loses digits too")]
pub(super) fn double<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Double(value)] => Ok(Val::Double(*value)),
        [Val::Int(value)] => Ok(Val::Double(*value as f64)),
        [Val::Uint(value)] => Ok(Val::Double(*value as f64)),
        [Val::Text(text)] => text.parse().map(Val::Double).map_err(|_| unparsed("double")),
        _ => Err(Failure::overload()),
    }
}
