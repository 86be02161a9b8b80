//! Resource quantities, and the comparisons they share with versions.

use std::cmp::Ordering;

use copepod_api::quantity::Quantity;

use super::{Opaque, core::text};
use crate::{
    functions::Function,
    value::{Failure, Result, Val},
};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "quantity", overloads: &["(string) quantity"], run: parse },
    Function {
        name: "isQuantity",
        overloads: &["(string) bool"],
        run: |a| Ok(Val::Bool(text(a.first())?.parse::<Quantity>().is_ok())),
    },
    Function {
        name: "sign",
        overloads: &["(quantity) int", "quantity.() int"],
        run: |a| Ok(Val::Int(of(a.first())?.nanos().signum() as i64)),
    },
    Function { name: "asApproximateFloat", overloads: &["quantity.() double"], run: float },
    Function {
        name: "asInteger",
        overloads: &["quantity.() int"],
        run: |a| {
            let value = of(a.first())?;
            whole(value).map(Val::Int).ok_or_else(|| Failure::new("cannot convert value to integer"))
        },
    },
    Function {
        name: "isInteger",
        overloads: &["quantity.() bool"],
        run: |a| Ok(Val::Bool(whole(of(a.first())?).is_some())),
    },
    Function {
        name: "add",
        overloads: &["quantity.(quantity) quantity", "quantity.(int) quantity"],
        run: |a| arithmetic(a, |a, b| a + b),
    },
    Function {
        name: "sub",
        overloads: &["quantity.(quantity) quantity", "quantity.(int) quantity"],
        run: |a| arithmetic(a, |a, b| a - b),
    },
];

const UNIT: i128 = 1_000_000_000;

fn of(value: Option<&Val<'_>>) -> Result<Quantity> {
    match value {
        Some(Val::Opaque(Opaque::Quantity(quantity))) => Ok(*quantity),
        _ => Err(Failure::overload()),
    }
}

fn whole(value: Quantity) -> Option<i64> {
    (value.nanos() % UNIT == 0).then(|| i64::try_from(value.nanos() / UNIT).ok()).flatten()
}

fn parse<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let parsed = text(args.first())?.parse::<Quantity>();
    parsed.map(|q| Val::Opaque(Opaque::Quantity(q))).map_err(|error| Failure::new(error.to_string()))
}

#[expect(clippy::cast_precision_loss, reason = "the function approximates")]
fn float<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    Ok(Val::Double(of(args.first())?.nanos() as f64 / UNIT as f64))
}

fn arithmetic<'a>(args: &[Val<'a>], by: fn(Quantity, Quantity) -> Quantity) -> Result<Val<'a>> {
    let other = match args.get(1) {
        Some(Val::Int(n)) => Quantity::from_units(*n),
        other => of(other)?,
    };
    Ok(Val::Opaque(Opaque::Quantity(by(of(args.first())?, other))))
}

/// The order of two quantities or versions.
pub(crate) fn order(args: &[Val<'_>]) -> Result<Ordering> {
    match args {
        [Val::Opaque(Opaque::Quantity(a)), Val::Opaque(Opaque::Quantity(b))] => Ok(a.nanos().cmp(&b.nanos())),
        [Val::Opaque(Opaque::Semver(a)), Val::Opaque(Opaque::Semver(b))] => Ok(a.cmp(b)),
        _ => Err(Failure::overload()),
    }
}

/// Whether the order is as wanted.
pub(crate) fn ordered<'a>(args: &[Val<'a>], holds: fn(Ordering) -> bool) -> Result<Val<'a>> {
    order(args).map(|order| Val::Bool(holds(order)))
}
