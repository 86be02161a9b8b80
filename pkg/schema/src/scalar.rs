//! Scalars with an encoding of their own: how upstream reads them and in which form it writes them back.

use std::str::FromStr as _;

use copepod_api::{Quantity, duration};
use serde_json::Value;

use crate::node::Format;

/// The canonical form of a string in `format`; the error is upstream's text.
pub(crate) fn text(format: Format, text: &str) -> Result<Value, String> {
    match format {
        Format::Time => time(text, "2006-01-02T15:04:05Z07:00", "%Y-%m-%dT%H:%M:%SZ"),
        Format::MicroTime => time(text, "2006-01-02T15:04:05.000000Z07:00", "%Y-%m-%dT%H:%M:%S.%6fZ"),
        Format::Quantity => quantity(text),
        Format::Byte => bytes(text),
        Format::Duration => duration::parse(text).map(|nanos| duration::format(nanos).into()),
        _ => Ok(text.into()),
    }
}

/// The canonical form of a quantity.
pub(crate) fn quantity(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Err(QUANTITY_ERROR.to_owned());
    }
    Quantity::from_str(text)
        .map(|quantity| quantity.to_string().into())
        .map_err(|_| quantity_error(text).to_owned())
}

/// A number with letters that could be a suffix and are none is told apart.
fn quantity_error(text: &str) -> &'static str {
    let unsigned = text.trim_start_matches(['+', '-']);
    let suffix = unsigned.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let letters = suffix.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['+', '-']);
    let possible = suffix.len() < unsigned.len() && letters.chars().all(|c| "eEinumkKMGTP".contains(c));
    if possible { "unable to parse quantity's suffix" } else { QUANTITY_ERROR }
}

/// What is wrong with a quantity that is no number.
pub(crate) const QUANTITY_ERROR: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

fn time(text: &str, layout: &str, format: &str) -> Result<Value, String> {
    let well_formed = text.as_bytes().get(10) == Some(&b'T') && !text.contains('[');
    let parsed = jiff::Timestamp::from_str(text).ok().filter(|_| well_formed);
    match parsed {
        Some(time) => Ok(time.strftime(format).to_string().into()),
        None => Err(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\"")),
    }
}

/// Checks standard base64; Go's decoder ignores line ends, and writes none.
fn bytes(text: &str) -> Result<Value, String> {
    let clean: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let body = clean.trim_end_matches('=');
    let padding = clean.len() - body.len();
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '/';
    let bad = body.find(|c| !letter(c));
    let whole = clean.len().is_multiple_of(4) && padding <= 2 && body.len() % 4 != 1;
    match bad {
        Some(at) => Err(format!("illegal base64 data at input byte {at}")),
        None if !whole => Err(format!("illegal base64 data at input byte {}", clean.len() - clean.len() % 4)),
        None => Ok(clean.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::node::Format;

    #[test]
    fn times_become_utc() {
        assert_eq!(text(Format::Time, "2020-01-02T03:04:05.678+01:00"), Ok("2020-01-02T02:04:05Z".into()));
        assert_eq!(text(Format::MicroTime, "2020-01-02T03:04:05Z"), Ok("2020-01-02T03:04:05.000000Z".into()));
        assert!(text(Format::Time, "yesterday").is_err());
        assert!(text(Format::Time, "2020-01-02 03:04:05Z").is_err());
    }

    #[test]
    fn base64_is_checked() {
        assert_eq!(text(Format::Byte, "aGk=\n"), Ok("aGk=".into()));
        assert_eq!(text(Format::Byte, ""), Ok("".into()));
        assert_eq!(text(Format::Byte, "a*b="), Err("illegal base64 data at input byte 1".into()));
        assert!(text(Format::Byte, "abcde").is_err());
    }
}
