//! Durations as Go reads and prints them (`time.ParseDuration`, `time.Duration.String`): the text of every
//! `metav1.Duration`, of flags, and of CEL's `duration()`.

use crate::field::quote;

/// Nanoseconds per unit.
const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Nanoseconds of a text such as `1h15m30.918s`, exactly.
///
/// # Errors
/// Go's text: an invalid duration, a missing or an unknown unit.
pub fn parse(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
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
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (number, tail) = split(rest, |c| !c.is_ascii_digit() && c != '.');
        if number.bytes().filter(|b| *b == b'.').count() > 1 || !number.contains(|c: char| c.is_ascii_digit())
        {
            return Err(invalid());
        }
        let (unit, tail) = split(tail, |c| c.is_ascii_digit() || c == '.');
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let (_, scale) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| format!("time: unknown unit {} in duration {}", quote(unit), quote(text)))?;
        total = amount(number, *scale).and_then(|part| total.checked_add(part)).ok_or_else(invalid)?;
        rest = tail;
    }
    i64::try_from(if negative { -total } else { total }).map_err(|_| invalid())
}

/// The same for what cannot be negative: periods, limits, ages.
///
/// # Errors
/// As [`parse`], and a negative duration.
pub fn parse_positive(text: &str) -> Result<std::time::Duration, String> {
    let nanos = parse(text)?;
    u64::try_from(nanos)
        .map(std::time::Duration::from_nanos)
        .map_err(|_| format!("{} is a negative duration", quote(text)))
}

fn split(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

fn amount(number: &str, scale: u64) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Eighteen digits are as many as Go takes into account.
    let fraction = fraction.get(..18).unwrap_or(fraction);
    let (mut part, mut of) = (0_i128, 1_i128);
    for digit in fraction.chars() {
        part = part * 10 + i128::from(digit.to_digit(10)?);
        of *= 10;
    }
    let scale = i128::from(scale);
    whole.checked_mul(scale)?.checked_add(part * scale / of)
}

/// Go's text of so many nanoseconds.
pub fn format(nanos: i64) -> String {
    if nanos == 0 {
        return "0s".to_owned();
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let n = nanos.unsigned_abs();
    let decimal = |whole: u64, part: u64, width: usize, unit: &str| {
        let digits = format!("{part:0width$}");
        let digits = digits.trim_end_matches('0');
        let point = if digits.is_empty() { "" } else { "." };
        format!("{whole}{point}{digits}{unit}")
    };
    let text = match n {
        0..1_000 => format!("{n}ns"),
        1_000..1_000_000 => decimal(n / 1_000, n % 1_000, 3, "µs"),
        1_000_000..1_000_000_000 => decimal(n / 1_000_000, n % 1_000_000, 6, "ms"),
        _ => {
            let (seconds, part) = (n / 1_000_000_000, n % 1_000_000_000);
            let tail = decimal(seconds % 60, part, 9, "s");
            match (seconds / 3600, seconds / 60 % 60) {
                (0, 0) => tail,
                (0, minutes) => format!("{minutes}m{tail}"),
                (hours, minutes) => format!("{hours}h{minutes}m{tail}"),
            }
        }
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_and_printed_as_go_does() {
        for (given, nanos, canonical) in [
            ("90s", 90_000_000_000, "1m30s"),
            ("1h", 3_600_000_000_000, "1h0m0s"),
            ("1500ms", 1_500_000_000, "1.5s"),
            ("61.005s", 61_005_000_000, "1m1.005s"),
            ("84ms", 84_000_000, "84ms"),
            ("0", 0, "0s"),
            ("-2m", -120_000_000_000, "-2m0s"),
            ("1.5us", 1_500, "1.5µs"),
            (".5h", 1_800_000_000_000, "30m0s"),
            ("1.h", 3_600_000_000_000, "1h0m0s"),
            ("0.000000001s", 1, "1ns"),
            ("0.3333333333333333333h", 1_199_999_999_999, "19m59.999999999s"),
            ("2562047h47m16.854775807s", i64::MAX, "2562047h47m16.854775807s"),
        ] {
            assert_eq!(parse(given), Ok(nanos), "{given}");
            assert_eq!(format(nanos), canonical);
        }
    }

    #[test]
    fn what_is_no_duration() {
        for (given, why) in [
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            (".s", "time: invalid duration \".s\""),
            ("1.2.3s", "time: invalid duration \"1.2.3s\""),
            ("soon", "time: invalid duration \"soon\""),
            ("5", "time: missing unit in duration \"5\""),
            ("5 days", "time: unknown unit \" days\" in duration \"5 days\""),
            ("9999999h", "time: invalid duration \"9999999h\""),
        ] {
            assert_eq!(parse(given), Err(why.to_owned()));
        }
        assert_eq!(parse_positive("1.5s"), Ok(std::time::Duration::from_millis(1500)));
        assert_eq!(parse_positive("-1s"), Err("\"-1s\" is a negative duration".to_owned()));
    }
}
