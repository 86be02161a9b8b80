//! Formats of strings in custom resources.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr as _,
};

use crate::{node::Format, scalar};

/// Formats of strings that are checked; all others are documentation.
const CHECKED: [&str; 19] = [
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "byte",
    "date",
    "duration",
    "datetime",
    "hexcolor",
    "ssn",
    "k8sshortname",
    "k8slongname",
];

/// The format to check for a type, if it is one that is checked. Hyphens do not count.
pub(crate) fn checked_format(type_: &str, format: &str) -> Option<String> {
    let plain = format.replace('-', "");
    let checked = match type_ {
        "" | "string" => CHECKED.contains(&plain.as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    checked.then(|| format.to_owned())
}

/// Whether a string is of a format; unknown formats hold.
pub(super) fn holds(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "uri" => text.starts_with('/') || is_absolute(text),
        "email" => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty()),
        "hostname" => is_hostname(text),
        "ipv4" => Ipv4Addr::from_str(text).is_ok(),
        "ipv6" => Ipv6Addr::from_str(text).is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "byte" => scalar::text(Format::Byte, text).is_ok(),
        "date" => jiff::civil::Date::from_str(text).is_ok() && text.len() == 10,
        "datetime" => scalar::text(Format::Time, text).is_ok(),
        "duration" => copepod_api::duration::parse(&text.replace(' ', "")).is_ok(),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
        }
        "ssn" => {
            let digits: String = text.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
            digits.len() == 9 && digits.bytes().all(|b| b.is_ascii_digit())
        }
        "k8sshortname" => is_label(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(is_label),
        _ => true,
    }
}

fn is_absolute(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        let mut chars = scheme.chars();
        let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
        first
            && chars.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && !rest.contains(char::is_whitespace)
    })
}

fn is_hostname(text: &str) -> bool {
    let label = |part: &str| {
        let inner = part.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
        !part.is_empty() && part.len() <= 63 && inner && !part.starts_with('-') && !part.ends_with('-')
    };
    !text.is_empty() && text.len() <= 255 && text.trim_end_matches('.').split('.').all(label)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let max = if Ipv4Addr::from_str(address).is_ok() { 32 } else { 128 };
    let valid = max == 32 || Ipv6Addr::from_str(address).is_ok();
    valid && bits.parse::<u8>().is_ok_and(|bits| bits <= max) && !bits.starts_with('+')
}

fn is_mac(text: &str) -> bool {
    let separator = if text.contains(':') { ':' } else { '-' };
    let parts: Vec<&str> = text.split(separator).collect();
    let octet = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    matches!(parts.len(), 6 | 8 | 20) && parts.iter().all(octet)
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let hyphens = text.char_indices().filter(|(_, c)| *c == '-').map(|(at, _)| at);
    let placed = text.len() == 32 || hyphens.eq([8, 13, 18, 23]);
    let versioned = version.is_none_or(|version| {
        let variant = digits.chars().nth(16).is_some_and(|c| "89abAB".contains(c));
        digits.chars().nth(12) == Some(version) && (version == '3' || variant)
    });
    digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit()) && placed && versioned
}

fn is_label(text: &str) -> bool {
    let inner = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    !text.is_empty() && text.len() <= 63 && inner && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::{checked_format, holds};

    #[test]
    fn formats_hold_or_not() {
        for (format, good, bad) in [
            ("ipv4", "1.2.3.4", "1.2.3"),
            ("ipv6", "fd00::1", "1.2.3.4"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("date-time", "2030-01-01T00:00:00Z", "2030-01-01"),
            ("date", "2030-01-31", "2030-01-32"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
            ("mac", "00:00:5e:00:53:01", "00:00:5e"),
            ("byte", "aGk=", "a*"),
            ("duration", "1h 30m", "soon"),
            ("k8s-short-name", "web-1", "Web"),
            ("uri", "https://a.b/c", "a b"),
        ] {
            assert!(holds(format, good), "{format} {good}");
            assert!(!holds(format, bad), "{format} {bad}");
        }
        assert_eq!(checked_format("string", "date-time").as_deref(), Some("date-time"));
        assert_eq!(checked_format("string", "semver"), None);
    }
}
