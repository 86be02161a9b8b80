//! Names of properties as expressions write them (`__dot__`, `__dash__`, …).

use std::borrow::Cow;

/// Words that no name may be.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a word is the language's own and can be no name.
#[must_use]
pub fn reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// A property's name as an expression writes it; `None` when no expression can.
#[must_use]
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__").into());
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c)) {
        return None;
    }
    if !name.contains(['-', '.', '/']) && !name.contains("__") {
        return Some(name.into());
    }
    let underscores = name.replace("__", "\u{0}");
    let out = underscores.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__");
    Some(out.replace('\u{0}', "__underscores__").into())
}

/// The property that an escaped name means; the name itself where it is not escaped well.
#[must_use]
pub fn unescape(name: &str) -> Cow<'_, str> {
    let inner = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = inner.filter(|word| RESERVED.contains(word)) {
        return word.to_owned().into();
    }
    let mut out = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("__") {
        out.push_str(before);
        let Some((word, tail)) = after.split_once("__") else {
            out.push_str("__");
            rest = after;
            continue;
        };
        out.push_str(match word {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            _ => return name.into(),
        });
        rest = tail;
    }
    out.push_str(rest);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for (name, escaped) in [
            ("a", "a"),
            ("a.b-c/d", "a__dot__b__dash__c__slash__d"),
            ("namespace", "__namespace__"),
            ("a__b", "a__underscores__b"),
            ("__", "__underscores__"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(escaped));
            assert_eq!(unescape(escaped), name);
        }
        assert_eq!(escape("a b"), None);
        assert_eq!(escape("1a"), None);
    }
}
