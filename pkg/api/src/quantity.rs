//! Resource quantities such as `500m`, `1Gi`, `1e3` (`k8s.io/apimachinery/pkg/api/resource`).
//!
//! Exact: a count of nano-units in an `i128`, with the format it was written in. What lies below a nano-unit
//! is rounded up, away from zero, as upstream does.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// `1500m`, `12k`.
    #[default]
    DecimalSi,
    /// `12Mi`.
    BinarySi,
    /// `12e6`.
    DecimalExponent,
}

/// An exact amount.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// Why a text is no quantity; the texts are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not of the form at all.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// More than one dot, or no digit.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// An unknown suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i128 = 1_000_000_000;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
/// Upstream caps amounts at the largest 64-bit integer of units.
const MAX: i128 = (i64::MAX as i128) * NANO;

impl Quantity {
    /// Zero, written as a plain number.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// A whole number of units.
    #[must_use]
    pub fn from_units(units: i64) -> Self {
        Self { nanos: i128::from(units) * NANO, format: Format::DecimalSi }
    }

    /// A number of thousandths, such as millicores.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self { nanos: i128::from(millis) * 1_000_000, format: Format::DecimalSi }
    }

    /// A number of bytes, written with binary suffixes.
    #[must_use]
    pub fn from_bytes(bytes: i64) -> Self {
        Self { nanos: i128::from(bytes) * NANO, format: Format::BinarySi }
    }

    /// Whole units, rounded up (`Value()`).
    #[must_use]
    pub fn units(self) -> i64 {
        clamp(div_up(self.nanos, NANO))
    }

    /// Thousandths, rounded up (`MilliValue()`).
    #[must_use]
    pub fn millis(self) -> i64 {
        clamp(div_up(self.nanos, 1_000_000))
    }

    /// The same amount in whole units, rounded up (`RoundUp(0)`).
    #[must_use]
    pub fn round_up(self) -> Self {
        Self { nanos: div_up(self.nanos, NANO) * NANO, ..self }
    }

    /// The exact amount in nano-units.
    #[must_use]
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Whether the amount is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// How it is written.
    #[must_use]
    pub fn format(self) -> Format {
        self.format
    }
}

fn clamp(n: i128) -> i64 {
    i64::try_from(n).unwrap_or(if n < 0 { i64::MIN } else { i64::MAX })
}

/// Division that rounds away from zero.
fn div_up(n: i128, by: i128) -> i128 {
    let quotient = n / by;
    if n % by == 0 { quotient } else { quotient + n.signum() }
}

impl std::ops::Add for Quantity {
    type Output = Self;
    /// The sum keeps the left side's format unless that is zero, as upstream's `Add` does.
    fn add(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: self.nanos + other.nanos, format }
    }
}

impl std::ops::Sub for Quantity {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: self.nanos - other.nanos, format }
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, |a, b| a + b)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}
impl Eq for Quantity {}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        if number.is_empty() || !suffix_shaped(suffix) {
            return Err(QuantityError::Format);
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::Numeric);
        }
        let (format, scale) = parse_suffix(suffix)?;
        let magnitude = scaled(whole, fraction, scale);
        let nanos = if text.starts_with('-') { -magnitude } else { magnitude };
        Ok(Self { nanos, format })
    }
}

fn suffix_shaped(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    digits.chars().all(|c| c.is_ascii_digit())
}

#[derive(Clone, Copy)]
enum Scale {
    Ten(i32),
    Two(u32),
}

fn parse_suffix(suffix: &str) -> Result<(Format, Scale), QuantityError> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Ok((Format::DecimalSi, Scale::Ten(*exponent)));
    }
    if let Some((_, shift)) = BINARY.iter().find(|(s, _)| *s == suffix) {
        return Ok((Format::BinarySi, Scale::Two(*shift)));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    let exponent = exponent.parse::<i32>().map_err(|_| QuantityError::Suffix)?;
    Ok((Format::DecimalExponent, Scale::Ten(exponent)))
}

/// `whole.fraction` times the scale in nano-units, rounded up and capped.
fn scaled(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let fraction = fraction.trim_end_matches('0');
    // 30 significant digits hold every amount below the cap exactly; more can only reach the cap or vanish.
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let (kept, dropped) = digits.split_at(digits.len().min(30));
    let mantissa: i128 = kept.parse().unwrap_or(i128::MAX);
    let dropped = i32::try_from(dropped.len()).unwrap_or(i32::MAX);
    let (exponent, shift) = match scale {
        Scale::Ten(e) => (e.saturating_add(9), 0),
        Scale::Two(shift) => (9, shift),
    };
    let exponent = exponent.saturating_sub(places).saturating_add(dropped);
    let shifted = mantissa.checked_mul(1_i128 << shift.min(60)).unwrap_or(i128::MAX);
    let nanos = if exponent >= 0 {
        10_i128.checked_pow(exponent.unsigned_abs()).and_then(|p| shifted.checked_mul(p)).unwrap_or(MAX)
    } else {
        10_i128.checked_pow(exponent.unsigned_abs()).map_or(1, |p| div_up(shifted, p))
    };
    nanos.min(MAX)
}

/// The canonical form: no fraction, the largest suffix that keeps the amount exact.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let small = self.nanos.abs() < 1024 * NANO;
        match self.format {
            Format::BinarySi if !small => write_binary(f, div_up(self.nanos, NANO)),
            Format::DecimalExponent => write_decimal(f, self.nanos, true),
            _ => write_decimal(f, self.nanos, false),
        }
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut units: i128) -> fmt::Result {
    let mut suffix = "";
    for (name, _) in BINARY {
        if units % 1024 != 0 {
            break;
        }
        units /= 1024;
        suffix = name;
    }
    write!(f, "{units}{suffix}")
}

fn write_decimal(f: &mut fmt::Formatter<'_>, nanos: i128, exponent_form: bool) -> fmt::Result {
    let (mut mantissa, mut exponent) = (nanos, -9);
    while mantissa != 0 && mantissa % 1000 == 0 && exponent < 18 {
        mantissa /= 1000;
        exponent += 3;
    }
    if mantissa == 0 {
        exponent = 0;
    }
    if exponent_form {
        return if exponent == 0 { write!(f, "{mantissa}") } else { write!(f, "{mantissa}e{exponent}") };
    }
    let suffix = DECIMAL.iter().find(|(_, e)| *e == exponent).map_or("", |(s, _)| s);
    write!(f, "{mantissa}{suffix}")
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Accepts a string or a JSON number, as upstream does.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text,
            serde_json::Value::Null => "0".to_owned(),
            other => other.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        text.parse::<Quantity>().map_or_else(|e| e.to_string(), |q| q.to_string())
    }

    #[test]
    fn canonical_forms_are_upstreams() {
        let cases = [
            ("0", "0"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1e3"),
            ("1E6", "1e6"),
            ("1200", "1200"),
            ("12000", "12k"),
            ("100Ki", "100Ki"),
            ("1023", "1023"),
            ("0.5Ki", "512"),
            ("-1.5", "-1500m"),
            ("1.0000000001", "1000000001n"),
            ("123456789012", "123456789012"),
            (".5", "500m"),
            ("5.", "5"),
            ("0Gi", "0"),
            ("1Ki", "1Ki"),
            ("100m", "100m"),
            ("2Ei", "2Ei"),
        ];
        for (text, want) in cases {
            assert_eq!(canonical(text), want, "{text}");
        }
    }

    #[test]
    fn refusals_are_named() {
        assert_eq!("".parse::<Quantity>(), Err(QuantityError::Format));
        assert_eq!("1.2.3".parse::<Quantity>(), Err(QuantityError::Numeric));
        assert_eq!("1xi".parse::<Quantity>(), Err(QuantityError::Format));
        assert_eq!("1Kim".parse::<Quantity>(), Err(QuantityError::Suffix));
    }

    #[test]
    fn sums_and_rounding() {
        let half: Quantity = "500m".parse().unwrap();
        assert_eq!((half + half).to_string(), "1");
        assert_eq!("1500m".parse::<Quantity>().unwrap().units(), 2);
        assert_eq!("1n".parse::<Quantity>().unwrap().millis(), 1);
        assert!(Quantity::from_bytes(1024) > Quantity::from_units(1023));
    }
}
