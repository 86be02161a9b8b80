//! Functions on text.

use super::core::{int, list, text, texts};
use crate::{
    functions::Function,
    value::{Failure, Result, Text, Val},
};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "contains",
        overloads: &["string.(string) bool"],
        run: |a| test(a, |s, t| s.contains(t)),
    },
    Function {
        name: "startsWith",
        overloads: &["string.(string) bool"],
        run: |a| test(a, |s, t| s.starts_with(t)),
    },
    Function {
        name: "endsWith",
        overloads: &["string.(string) bool"],
        run: |a| test(a, |s, t| s.ends_with(t)),
    },
    Function { name: "matches", overloads: &["(string, string) bool", "string.(string) bool"], run: matches },
    Function { name: "find", overloads: &["string.(string) string"], run: find },
    Function {
        name: "findAll",
        overloads: &["string.(string) list<string>", "string.(string, int) list<string>"],
        run: find_all,
    },
    Function { name: "charAt", overloads: &["string.(int) string"], run: char_at },
    Function {
        name: "lowerAscii",
        overloads: &["string.() string"],
        run: |a| map(a, str::to_ascii_lowercase),
    },
    Function {
        name: "upperAscii",
        overloads: &["string.() string"],
        run: |a| map(a, str::to_ascii_uppercase),
    },
    Function { name: "trim", overloads: &["string.() string"], run: |a| map(a, |s| s.trim().to_owned()) },
    Function {
        name: "replace",
        overloads: &["string.(string, string) string", "string.(string, string, int) string"],
        run: replace,
    },
    Function {
        name: "split",
        overloads: &["string.(string) list<string>", "string.(string, int) list<string>"],
        run: split,
    },
    Function {
        name: "substring",
        overloads: &["string.(int) string", "string.(int, int) string"],
        run: substring,
    },
    Function {
        name: "join",
        overloads: &["list<string>.() string", "list<string>.(string) string"],
        run: join,
    },
    Function { name: "strings.quote", overloads: &["(string) string"], run: |a| map(a, quote) },
    Function {
        name: "jsonpatch.escapeKey",
        overloads: &["(string) string"],
        run: |a| map(a, |s| s.replace('~', "~0").replace('/', "~1")),
    },
];

fn test<'a>(args: &[Val<'a>], holds: fn(&str, &str) -> bool) -> Result<Val<'a>> {
    Ok(Val::Bool(holds(text(args.first())?, text(args.get(1))?)))
}

fn map<'a>(args: &[Val<'a>], of: fn(&str) -> String) -> Result<Val<'a>> {
    Ok(Val::text(of(text(args.first())?)))
}

fn number(value: Option<&Val<'_>>) -> Result<i64> {
    match value {
        Some(Val::Int(n)) => Ok(*n),
        _ => Err(Failure::overload()),
    }
}

fn regex(pattern: &str) -> Result<regex_lite::Regex> {
    regex_lite::Regex::new(pattern).map_err(|error| Failure::new(format!("Illegal regex: {error}")))
}

fn matches<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let pattern = text(args.get(1))?;
    let regex = regex_lite::Regex::new(pattern)
        .map_err(|error| Failure::new(format!("error parsing regexp: {error}: `{}`", &**pattern)))?;
    Ok(Val::Bool(regex.is_match(text(args.first())?)))
}

fn find<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let regex = regex(text(args.get(1))?)?;
    Ok(Val::text(regex.find(text(args.first())?).map_or("", |found| found.as_str())))
}

fn find_all<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let regex = regex(text(args.get(1))?)?;
    let limit = match args.get(2) {
        Some(n) => usize::try_from(number(Some(n))?).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    let found = regex.find_iter(text(args.first())?).take(limit).map(|found| found.as_str().to_owned());
    Ok(texts(found.collect::<Vec<_>>()))
}

fn out_of_range(at: i64) -> Failure {
    Failure::new(format!("index out of range: {at}"))
}

fn char_at<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let (s, at) = (text(args.first())?, number(args.get(1))?);
    let index = usize::try_from(at).map_err(|_| out_of_range(at))?;
    match s.chars().nth(index) {
        Some(c) => Ok(Val::text(c.to_string())),
        None if index == s.chars().count() => Ok(Val::text("")),
        None => Err(out_of_range(at)),
    }
}

/// `indexOf` of text.
pub(crate) fn index_of<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let (s, part) = (chars(args.first())?, chars(args.get(1))?);
    let from = if args.len() > 2 { number(args.get(2))? } else { 0 };
    let start = usize::try_from(from).map_err(|_| out_of_range(from))?;
    if part.is_empty() {
        return Ok(int(start.min(s.len())));
    }
    let found = (start..s.len()).find(|at| s.get(*at..).is_some_and(|rest| rest.starts_with(&part)));
    Ok(found.map_or(Val::Int(-1), int))
}

/// `lastIndexOf` of text.
pub(crate) fn last_index_of<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let (s, part) = (chars(args.first())?, chars(args.get(1))?);
    let start = match args.get(2) {
        Some(n) => {
            let from = number(Some(n))?;
            usize::try_from(from).map_err(|_| out_of_range(from))?
        }
        None if part.is_empty() => return Ok(int(s.len())),
        None if s.len() < part.len() => return Ok(Val::Int(-1)),
        None => s.len() - 1,
    };
    if part.is_empty() {
        return Ok(int(start.min(s.len())));
    }
    if start >= s.len() {
        return Ok(Val::Int(-1));
    }
    let found = (0..=start).rev().find(|at| s.get(*at..).is_some_and(|rest| rest.starts_with(&part)));
    Ok(found.map_or(Val::Int(-1), int))
}

fn chars(value: Option<&Val<'_>>) -> Result<Vec<char>> {
    Ok(text(value)?.chars().collect())
}

fn replace<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let (s, from, to) = (text(args.first())?, text(args.get(1))?, text(args.get(2))?);
    let limit = match args.get(3) {
        Some(n) => usize::try_from(number(Some(n))?).ok(),
        None => None,
    };
    Ok(Val::text(limit.map_or_else(|| s.replace(&**from, to), |n| s.replacen(&**from, to, n))))
}

fn split<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let (s, by) = (text(args.first())?, text(args.get(1))?);
    let limit = match args.get(2) {
        Some(n) => usize::try_from(number(Some(n))?).ok(),
        None => None,
    };
    if limit == Some(0) {
        return Ok(Val::made(Vec::new()));
    }
    let limit = limit.unwrap_or(usize::MAX);
    if !by.is_empty() {
        return Ok(texts(s.splitn(limit, &**by).map(str::to_owned).collect::<Vec<_>>()));
    }
    // Every character, the last part taking what is left.
    let mut parts = Vec::new();
    let mut rest: &str = s;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == limit {
            break;
        }
        let (first, tail) = rest.split_at(c.len_utf8());
        parts.push(first.to_owned());
        rest = tail;
    }
    if !rest.is_empty() {
        parts.push(rest.to_owned());
    }
    Ok(texts(parts))
}

fn substring<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let (s, start) = (chars(args.first())?, number(args.get(1))?);
    let end = match args.get(2) {
        Some(n) => number(Some(n))?,
        None => i64::try_from(s.len()).unwrap_or(i64::MAX),
    };
    if args.len() > 2 && start > end {
        return Err(Failure::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let index =
        |at: i64| usize::try_from(at).ok().filter(|at| *at <= s.len()).ok_or_else(|| out_of_range(at));
    let (start, end) = (index(start)?, index(end)?);
    Ok(Val::text(s.get(start..end).unwrap_or_default().iter().collect::<String>()))
}

fn join<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let items = list(args.first())?;
    let parts = items.iter().map(|item| match item {
        Val::Text(text) => Ok(text),
        other => Err(Failure::new(format!("join: invalid input: {other:?}"))),
    });
    let parts: Vec<Text<'a>> = parts.collect::<Result<_>>()?;
    let by = match args.get(1) {
        Some(by) => text(Some(by))?,
        None => "",
    };
    Ok(Val::text(parts.iter().map(|part| &**part).collect::<Vec<_>>().join(by)))
}

/// Text in quotation marks.
pub(crate) fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
