//! Scalars with an encoding of their own: how upstream reads them and in which form it writes them back.

use std::str::FromStr as _;

use copepod_api::Quantity;
use serde_json::Value;

use crate::node::Format;

/// Nanoseconds per unit of a Go duration.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// The canonical form of a string in `format`; the error is upstream's text.
pub(crate) fn text(format: Format, text: &str) -> Result<Value, String> {
    match format {
        Format::Time => time(text, "2006-01-02T15:04:05Z07:00", "%Y-%m-%dT%H:%M:%SZ"),
        Format::MicroTime => time(text, "2006-01-02T15:04:05.000000Z07:00", "%Y-%m-%dT%H:%M:%S.%6fZ"),
        Format::Quantity => quantity(text),
        Format::Byte => bytes(text),
        Format::Duration => parse_duration(text).map(|nanos| format_duration(nanos).into()),
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

/// Nanoseconds of a Go duration such as `1h15m30.918s`.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: f64 = 0.0;
    while !rest.is_empty() {
        let number = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(|| format!("time: missing unit in duration {text:?}"))?;
        let (digits, tail) = rest.split_at(number);
        let count: f64 = digits.parse().map_err(|_| invalid())?;
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let (_, scale) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| format!("time: unknown unit {unit:?} in duration {text:?}"))?;
        total += count * scale;
        rest = tail;
    }
    if total > 9.2e18 {
        return Err(invalid());
    }
    #[expect(clippy::cast_possible_truncation, reason = "the bound above keeps it in range")]
    let nanos = total.round() as i64;
    Ok(if negative { -nanos } else { nanos })
}

/// Go's text of a duration.
pub(crate) fn format_duration(nanos: i64) -> String {
    if nanos == 0 {
        return "0s".to_owned();
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let n = nanos.unsigned_abs();
    let decimal = |whole: u64, part: u64, width: usize, unit: &str| {
        let digits = format!("{part:0width$}");
        let digits = digits.trim_end_matches('0');
        let point = if digits.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{digits}{unit}")
    };
    match n {
        0..1_000 => format!("{sign}{n}ns"),
        1_000..1_000_000 => decimal(n / 1_000, n % 1_000, 3, "µs"),
        1_000_000..1_000_000_000 => decimal(n / 1_000_000, n % 1_000_000, 6, "ms"),
        _ => {
            let (seconds, part) = (n / 1_000_000_000, n % 1_000_000_000);
            let tail = decimal(seconds % 60, part, 9, "s");
            let tail = tail.trim_start_matches('-');
            match (seconds / 3600, seconds / 60 % 60) {
                (0, 0) => format!("{sign}{tail}"),
                (0, minutes) => format!("{sign}{minutes}m{tail}"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{tail}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{format_duration, parse_duration, text};
    use crate::node::Format;

    #[test]
    fn durations_print_as_go_prints_them() {
        for (given, canonical) in [
            ("90s", "1m30s"),
            ("1h", "1h0m0s"),
            ("1500ms", "1.5s"),
            ("0", "0s"),
            ("-2m", "-2m0s"),
            ("1.5us", "1.5µs"),
        ] {
            assert_eq!(parse_duration(given).map(format_duration).as_deref(), Ok(canonical), "{given}");
        }
        assert!(parse_duration("5").is_err_and(|e| e == "time: missing unit in duration \"5\""));
        assert!(parse_duration("5 days").is_err());
    }

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
