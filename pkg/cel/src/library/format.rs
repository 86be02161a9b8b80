//! `format`: text with clauses.

use super::{core::text, time};
use crate::{
    functions::Function,
    value::{Failure, List, Result, Val, compare},
};

pub(crate) const FUNCTIONS: &[Function] =
    &[Function { name: "format", overloads: &["string.(list<dyn>) string"], run: format }];

/// A number as text, shortest form that reads back.
pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else if value != 0.0 && (value.abs() >= 1e21 || value.abs() < 1e-4) {
        let text = format!("{value:e}");
        exponent(&text)
    } else {
        format!("{value}")
    }
}

/// An exponent of at least two digits with its sign.
fn exponent(text: &str) -> String {
    let Some((mantissa, power)) = text.split_once('e') else { return text.to_owned() };
    let (sign, digits) = power.strip_prefix('-').map_or(('+', power), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// The clauses of a format, without `%%`.
pub(crate) fn clauses(pattern: &str) -> std::result::Result<Vec<char>, String> {
    let mut out = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            continue;
        }
        let mut clause = chars.next().ok_or("unexpected end of string")?;
        if clause == '.' {
            clause = chars.by_ref().find(|c| !c.is_ascii_digit()).ok_or("unexpected end of string")?;
        }
        match clause {
            '%' => {}
            's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o' => out.push(clause),
            other => return Err(unrecognized(other)),
        }
    }
    Ok(out)
}

fn unrecognized(clause: char) -> String {
    format!("could not parse formatting clause: unrecognized formatting clause \"{clause}\"")
}

fn format<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let (pattern, Some(Val::List(args))) = (text(args.first())?, args.get(1)) else {
        return Err(Failure::overload());
    };
    let mut out = String::new();
    let mut chars = pattern.chars();
    let mut next = 0;
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut precision = None;
        let mut clause = chars.next().ok_or_else(|| Failure::new("unexpected end of string"))?;
        if clause == '%' {
            out.push('%');
            continue;
        }
        if clause == '.' {
            let digits: String = chars.as_str().chars().take_while(char::is_ascii_digit).collect();
            chars.by_ref().take(digits.len()).for_each(drop);
            precision = digits.parse().ok();
            clause = chars.next().ok_or_else(|| Failure::new("unexpected end of string"))?;
        }
        let arg = args.get(next).ok_or_else(|| Failure::new(format!("index {next} out of range")))?;
        next += 1;
        out.push_str(&one(clause, precision, &arg)?);
    }
    Ok(Val::text(out))
}

/// An argument as a clause writes it.
pub(crate) fn one(clause: char, precision: Option<usize>, arg: &Val<'_>) -> Result<String> {
    let wrong = |what: &str| {
        let given = arg.type_of();
        Failure::new(format!("error during formatting: {what}, was given {}", given.name()))
    };
    match (clause, arg) {
        ('s', value) => plain(value),
        ('d', Val::Int(n)) => Ok(n.to_string()),
        ('d', Val::Uint(n)) => Ok(n.to_string()),
        ('f' | 'e' | 'd', Val::Double(v)) if !v.is_finite() => {
            Ok(double(*v).replace("+Inf", "Infinity").replace("-Inf", "-Infinity"))
        }
        ('f', value) => Ok(format!(
            "{:.*}",
            precision.unwrap_or(6),
            float(value).ok_or_else(|| wrong("fixed-point clause can only be used on doubles"))?
        )),
        ('e', value) => {
            let value = float(value).ok_or_else(|| wrong("scientific clause can only be used on doubles"))?;
            Ok(exponent(&format!("{value:.*e}", precision.unwrap_or(6))))
        }
        ('b', Val::Int(n)) => Ok(signed(*n, format!("{:b}", n.unsigned_abs()))),
        ('b', Val::Uint(n)) => Ok(format!("{n:b}")),
        ('b', Val::Bool(b)) => Ok(u8::from(*b).to_string()),
        ('o', Val::Int(n)) => Ok(signed(*n, format!("{:o}", n.unsigned_abs()))),
        ('o', Val::Uint(n)) => Ok(format!("{n:o}")),
        ('x' | 'X', value) => {
            let hex = match value {
                Val::Int(n) => signed(*n, format!("{:x}", n.unsigned_abs())),
                Val::Uint(n) => format!("{n:x}"),
                Val::Text(text) => hex(text.as_bytes()),
                Val::Bytes(bytes) => hex(bytes),
                _ => return Err(wrong("only integers, byte buffers, and strings can be formatted as hex")),
            };
            Ok(if clause == 'X' { hex.to_uppercase() } else { hex })
        }
        ('d', _) => Err(wrong("decimal clause can only be used on integers")),
        ('b', _) => Err(wrong("only integers and bools can be formatted as binary")),
        ('o', _) => Err(wrong("octal clause can only be used on integers")),
        (other, _) => Err(Failure::new(unrecognized(other))),
    }
}

fn signed(n: i64, digits: String) -> String {
    if n < 0 { format!("-{digits}") } else { digits }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[expect(clippy::cast_precision_loss, reason = "the clause is for floating-point numbers")]
fn float(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Double(v) => Some(*v),
        Val::Int(v) => Some(*v as f64),
        Val::Uint(v) => Some(*v as f64),
        _ => None,
    }
}

/// A value as `%s` writes it.
fn plain(value: &Val<'_>) -> Result<String> {
    Ok(match value {
        Val::Text(text) => text.to_string(),
        Val::Bool(v) => v.to_string(),
        Val::Int(v) => v.to_string(),
        Val::Uint(v) => v.to_string(),
        Val::Double(v) => double(*v).replace("+Inf", "Infinity").replace("-Inf", "-Infinity"),
        Val::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Val::Null => "null".to_owned(),
        Val::Duration(nanos) => time::seconds(*nanos),
        Val::Time(at) => time::rfc3339(*at),
        Val::Type(of) => of.name().to_owned(),
        Val::List(list) => format!("[{}]", parts(list)?),
        Val::Map(map) => {
            let mut entries = map.entries();
            entries.sort_by(|(a, _), (b, _)| compare::order(a, b).unwrap_or(std::cmp::Ordering::Equal));
            let parts = entries.iter().map(|(key, value)| Ok(format!("{}: {}", plain(key)?, plain(value)?)));
            format!("{{{}}}", parts.collect::<Result<Vec<_>>>()?.join(", "))
        }
        other => {
            return Err(Failure::new(format!(
                "error during formatting: no formatting function for {}",
                other.type_of()
            )));
        }
    })
}

fn parts(list: &List<'_>) -> Result<String> {
    Ok(list.iter().map(|item| plain(&item)).collect::<Result<Vec<_>>>()?.join(", "))
}
