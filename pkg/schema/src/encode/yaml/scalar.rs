//! Which text may stand unquoted: what characters allow, and what a YAML 1.1 reader would make of it.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::Number;

use super::is_break;

/// The styles that a text's characters allow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fits {
    /// Without quotes.
    pub(super) plain: bool,
    /// In single quotes.
    pub(super) single: bool,
    /// As a literal block.
    pub(super) block: bool,
}

impl Fits {
    pub(super) fn of(text: &str) -> Self {
        if text.is_empty() {
            return Self { plain: true, single: true, block: false };
        }
        let special = text.chars().any(|c| !is_printable(c));
        let pair = |first: fn(char) -> bool, second: fn(char) -> bool| {
            text.chars().zip(text.chars().skip(1)).any(|(a, b)| first(a) && second(b))
        };
        let space_break = pair(is_space, is_break);
        let break_space = pair(is_break, is_space);
        let edge = |c: char| is_space(c) || is_break(c);
        let breaks = text.contains(is_break);
        Self {
            plain: !(special
                || space_break
                || breaks
                || text.starts_with(edge)
                || text.ends_with(edge)
                || has_indicator(text)),
            single: !(special || space_break || break_space),
            block: !(special || space_break || text.ends_with(is_space)),
        }
    }
}

fn is_space(c: char) -> bool {
    c == ' '
}

/// What is written as itself within quotes.
pub(super) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

/// Characters that mean something in a block.
fn has_indicator(text: &str) -> bool {
    if text.starts_with("---") || text.starts_with("...") {
        return true;
    }
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    let mut first = true;
    while let Some(c) = chars.next() {
        let blank_follows = chars.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
        let blank_before = matches!(before, ' ' | '\t') || is_break(before);
        let found = match c {
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
            | '`'
                if first =>
            {
                true
            }
            '?' | '-' if first => blank_follows,
            ':' => blank_follows,
            '#' => blank_before,
            _ => false,
        };
        if found {
            return true;
        }
        before = c;
        first = false;
    }
    false
}

/// Words that stand for values.
const WORDS: [&str; 39] = [
    "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", "n", "N", "no", "No", "NO",
    "false", "False", "FALSE", "off", "Off", "OFF", "~", "null", "Null", "NULL", "", ".nan", ".NaN", ".NAN",
    ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
];

/// Integers, decimal fractions, base 60 numbers and dates of YAML 1.1 as upstream's reader knows them.
static VALUES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:[-+]?(?:0[xX][0-9a-fA-F_]{1,16}|0[bB][01_]+|0[oO][0-7_]+)",
        r"|[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9_]+)?",
        r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?",
        r"|[0-9]{4}-(?:0?[1-9]|1[0-2])-(?:0?[1-9]|[12][0-9]|3[01])",
        r"(?:[Tt][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?(?:Z|[-+][0-9]{2}:[0-9]{2})",
        r"| [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?)?)$"
    ))
    .expect("a constant pattern")
});

/// Whether an unquoted `text` would be read as text.
pub(super) fn is_text(text: &str) -> bool {
    let number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) && VALUES.is_match(text);
    !(number || WORDS.contains(&text))
}

/// A number as Go writes it.
pub(super) fn number(number: &Number) -> String {
    if number.is_i64() || number.is_u64() {
        return number.to_string();
    }
    let value = number.as_f64().unwrap_or_default();
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}
