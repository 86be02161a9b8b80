//! From text to syntax, with errors as upstream writes them.

use std::sync::LazyLock;

use cel::common::ast::{IdedExpr, SourceInfo};

use crate::macros;

/// One problem with an expression.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Issue {
    /// From 1.
    pub(crate) line: usize,
    /// In characters, from 0.
    pub(crate) column: usize,
    pub(crate) text: String,
}

/// The most issues that are written out.
const MOST: usize = 100;

/// The issues of an expression as one text.
pub(crate) fn render(source: &str, issues: &[Issue]) -> String {
    let mut issues: Vec<&Issue> = issues.iter().collect();
    issues.sort();
    let more = issues.len().saturating_sub(MOST);
    let mut out: Vec<String> = issues.into_iter().take(MOST).map(|issue| one(source, issue)).collect();
    if more > 0 {
        out.push(format!("{more} more errors were truncated"));
    }
    out.join("\n")
}

fn one(source: &str, issue: &Issue) -> String {
    let head = format!("ERROR: <input>:{}:{}: {}", issue.line, issue.column + 1, issue.text);
    let Some(line) = source.split('\n').nth(issue.line.saturating_sub(1)) else { return head };
    let line = line.replace('\t', " ");
    let mut marks = String::new();
    let mut chars = line.chars();
    for c in chars.by_ref().take(issue.column) {
        marks.push(if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' });
    }
    marks.push(if chars.next().is_some_and(|c| c.len_utf8() > 1) { '\u{ff3e}' } else { '^' });
    format!("{head}\n | {line}\n | {marks}")
}

/// Where things are in the text.
#[derive(Debug)]
pub(crate) struct Positions<'s> {
    source: &'s str,
    info: SourceInfo,
}

impl Positions<'_> {
    /// An issue at an expression.
    pub(crate) fn issue(&self, id: u64, text: String) -> Issue {
        let start = self.info.offset_for(id).map_or(0, |(start, _)| start as usize);
        let (mut line, mut column) = (1, 0);
        for (_, c) in self.source.char_indices().take_while(|(at, _)| *at < start) {
            column += 1;
            if c == '\n' {
                line += 1;
                column = 0;
            }
        }
        Issue { line, column, text }
    }
}

/// The longest text that is looked at, in characters.
const LONGEST: usize = 100_000;

/// Parses an expression.
pub(crate) fn parse(source: &str, bindings: bool) -> Result<(IdedExpr, Positions<'_>), Vec<Issue>> {
    static PLAIN: LazyLock<cel::Env> = LazyLock::new(|| macros::env(false));
    static BINDING: LazyLock<cel::Env> = LazyLock::new(|| macros::env(true));
    let env = if bindings { &BINDING } else { &PLAIN };
    let size = source.chars().count();
    if size > LONGEST {
        let text = format!("expression code point size exceeds limit: size: {size}, limit {LONGEST}");
        return Err(vec![Issue { line: 1, column: 0, text }]);
    }
    // Fields may be written in backticks, as upstream's parser lets them be.
    match env.parser().enable_ident_escape_syntax(true).parse_with_source_info(source) {
        Ok((expr, info)) => Ok((expr, Positions { source, info })),
        Err(errors) => Err(errors.errors.into_iter().map(issue).collect()),
    }
}

fn issue(error: cel::ParseError) -> Issue {
    let (line, column) = error.pos;
    let at = |n: isize| usize::try_from(n).unwrap_or(0);
    Issue { line: at(line), column: at(column).saturating_sub(1), text: error.msg }
}
