//! Semantic versions.

use std::{cmp::Ordering, sync::Arc};

use super::{Opaque, core::text};
use crate::{
    functions::Function,
    value::{Failure, Result, Val},
};

/// A version; build metadata is kept but does not order.
#[derive(Debug, Clone, Eq)]
pub struct Version {
    numbers: [u64; 3],
    before: Vec<Part>,
}

/// A part of a pre-release.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.before.is_empty(), other.before.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.before.cmp(&other.before),
            }
        })
    }
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "semver", overloads: &["(string) semver", "(string, bool) semver"], run: to_version },
    Function {
        name: "isSemver",
        overloads: &["(string) bool", "(string, bool) bool"],
        run: |args| match to_version(args) {
            Ok(_) => Ok(Val::Bool(true)),
            Err(failure) if failure == Failure::overload() => Err(failure),
            Err(_) => Ok(Val::Bool(false)),
        },
    },
    Function { name: "major", overloads: &["semver.() int"], run: |args| number(args, 0) },
    Function { name: "minor", overloads: &["semver.() int"], run: |args| number(args, 1) },
    Function { name: "patch", overloads: &["semver.() int"], run: |args| number(args, 2) },
];

fn number<'a>(args: &[Val<'a>], at: usize) -> Result<Val<'a>> {
    match args {
        [Val::Opaque(Opaque::Semver(version))] => {
            let number = version.numbers.get(at).copied().unwrap_or_default();
            Ok(Val::Int(i64::try_from(number).unwrap_or(i64::MAX)))
        }
        _ => Err(Failure::overload()),
    }
}

fn to_version<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let given = text(args.first())?;
    let version = match args.get(1) {
        Some(Val::Bool(true)) => parse(&normalized(given)),
        _ => parse(given),
    };
    version.map(|v| Val::Opaque(Opaque::Semver(Arc::new(v)))).map_err(Failure::new)
}

/// A loose version in strict form: without `v` and leading zeros, with three numbers.
fn normalized(given: &str) -> String {
    let given = given.trim().strip_prefix('v').unwrap_or_else(|| given.trim());
    let end = given.find(['-', '+']).unwrap_or(given.len());
    let (numbers, rest) = given.split_at(end);
    let mut parts: Vec<String> = numbers
        .split('.')
        .map(|part| {
            let short = part.trim_start_matches('0');
            if short.is_empty() && !part.is_empty() { "0".to_owned() } else { short.to_owned() }
        })
        .collect();
    while parts.len() < 3 && rest.is_empty() {
        parts.push("0".to_owned());
    }
    format!("{}{rest}", parts.join("."))
}

fn parse(given: &str) -> std::result::Result<Version, String> {
    if given.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let main = given.split_once('+').map_or(given, |(main, _)| main);
    let (numbers, before) = main.split_once('-').map_or((main, None), |(n, b)| (n, Some(b)));
    let parts: Vec<&str> = numbers.split('.').collect();
    let [major, minor, patch] = parts.as_slice() else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let read = |text: &str, what: &str| {
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_digit()) {
            return Err(format!("Invalid character(s) found in {what} number {text:?}"));
        }
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("{} number must not contain leading zeroes {text:?}", capital(what)));
        }
        text.parse::<u64>().map_err(|error| error.to_string())
    };
    let numbers = [read(major, "major")?, read(minor, "minor")?, read(patch, "patch")?];
    let before = before.map(|text| text.split('.').map(part).collect()).transpose()?.unwrap_or_default();
    Ok(Version { numbers, before })
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|c| c.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
}

fn part(text: &str) -> std::result::Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.chars().all(|c| c.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text:?}"));
        }
        return text.parse().map(Part::Number).map_err(|error| format!("{error}"));
    }
    if text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Ok(Part::Word(text.to_owned()));
    }
    Err(format!("Invalid character(s) found in prerelease {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_order() {
        let list = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0", "1.2.0", "1.10.0"];
        let read: Vec<Version> = list.iter().map(|text| parse(text).unwrap()).collect();
        assert!(read.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(parse("v1.0.0").is_err());
        assert!(parse("01.0.0").is_err());
        assert_eq!(normalized("v01.2"), "1.2.0");
    }
}
