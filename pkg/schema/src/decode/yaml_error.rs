//! What upstream's YAML parser says of a text that is no YAML, told from what ours says.

/// Upstream's words for ours, and whether its scanner finds it (which counts lines from one) or its parser (from zero).
const WORDS: [(&str, &str, bool); 10] = [
    ("tab", "found character that cannot start any token", true),
    ("unexpected character", "found character that cannot start any token", true),
    ("simple key", "could not find expected ':'", true),
    ("unclosed quote", "found unexpected end of stream", true),
    ("not allowed in this context", "", true),
    ("while scanning", "", true),
    ("while parsing a quoted scalar", "", true),
    ("while parsing a tag", "", true),
    ("misplaced bracket", "did not find expected node content", false),
    ("while parsing", "", false),
];

/// The error of `text`, whose parser said `said`, with its place behind it.
pub(super) fn error(said: &str, text: &str) -> String {
    let (said, line, column) = placed(said);
    if said.starts_with("unclosed bracket") {
        let open = text.trim_end().ends_with(['[', '{', ',', ':']);
        let what = match (open, said.contains('[')) {
            (true, _) => "did not find expected node content",
            (false, true) => "did not find expected ',' or ']'",
            (false, false) => "did not find expected ',' or '}'",
        };
        // The end of the text is a line of its own.
        return format!("yaml: line {}: {what}", text.lines().count());
    }
    if said.contains("unknown anchor") {
        let name = alias(text, line, column).unwrap_or_default();
        return format!("yaml: unknown anchor '{name}' referenced");
    }
    if said.starts_with("mismatched bracket") {
        let wanted = if said.contains("'['") { ']' } else { '}' };
        return at_line(line, false, &format!("did not find expected ',' or '{wanted}'"));
    }
    let found = WORDS.iter().find(|(ours, ..)| said.contains(ours));
    let (words, scanned) = found.map_or(("", true), |(_, words, scanned)| (*words, *scanned));
    let bare =
        if said.starts_with("while ") { said.split_once(", ").map_or(said, |(_, what)| what) } else { said };
    let what = if words.is_empty() { bare } else { words };
    // A key is found to be none where the next token is.
    let later = usize::from(words == "could not find expected ':'");
    at_line(line.map(|line| line + later), scanned, what)
}

/// The first line is not named; the parser counts from zero.
fn at_line(line: Option<usize>, scanned: bool, what: &str) -> String {
    match line.filter(|line| *line > 1) {
        Some(line) => format!("yaml: line {}: {what}", if scanned { line } else { line - 1 }),
        None => format!("yaml: {what}"),
    }
}

/// The name of an alias.
fn alias(text: &str, line: Option<usize>, column: Option<usize>) -> Option<&str> {
    let line = text.lines().nth(line?.checked_sub(1)?)?;
    let at = line.char_indices().nth(column?.checked_sub(1)?)?.0;
    line.get(at..)?.strip_prefix('*')?.split([' ', ',', ']', '}', '\t']).next()
}

/// Parts `… at line 3, column 4`.
fn placed(said: &str) -> (&str, Option<usize>, Option<usize>) {
    let Some((what, place)) = said.rsplit_once(" at line ") else { return (said, None, None) };
    let mut numbers = place.split(", column ").map(|number| number.trim().parse().ok());
    (what, numbers.next().flatten(), numbers.next().flatten())
}

#[cfg(test)]
mod tests {
    use super::super::yaml;

    #[test]
    fn texts_are_those_of_upstream() {
        for (text, wanted) in [
            ("a: [", "yaml: line 1: did not find expected node content"),
            ("a: [1", "yaml: line 1: did not find expected ',' or ']'"),
            ("a: b\n c: d\n", "yaml: line 2: mapping values are not allowed in this context"),
            ("a:\n\tb: c\n", "yaml: line 2: found character that cannot start any token"),
            ("a: 1\nb\nc: 2\n", "yaml: line 3: could not find expected ':'"),
            ("a: *x", "yaml: unknown anchor 'x' referenced"),
            ("a: [b}", "yaml: did not find expected ',' or ']'"),
            ("a: \"b", "yaml: found unexpected end of stream"),
        ] {
            assert_eq!(yaml(text.as_bytes()).expect_err("no YAML"), wanted, "{text:?}");
        }
    }
}
