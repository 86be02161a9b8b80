//! Writing trees as YAML in the form of upstream's encoder: sorted keys, lists not indented below their key, text
//! plain where a YAML 1.1 reader takes it for text, long lines folded at 80 columns.

use std::{cmp::Ordering, fmt::Write as _};

use serde_json::{Map, Value};

mod scalar;

/// Behind this column a line is folded at its next space.
const WIDTH: usize = 80;

/// Longer keys are written in the explicit form.
const SIMPLE_KEY: usize = 128;

/// The document, with a line end behind it.
#[must_use]
pub fn yaml(value: &Value) -> String {
    let mut writer = Writer::default();
    match value {
        Value::Object(map) if !map.is_empty() => writer.mapping(map, 0, true),
        Value::Array(list) if !list.is_empty() => writer.sequence(list, 0, true),
        scalar => writer.scalar(scalar, 2),
    }
    if !writer.out.ends_with('\n') {
        writer.out.push('\n');
    }
    writer.out
}

/// Text so far, and where its last line ends.
#[derive(Default)]
struct Writer {
    out: String,
    column: usize,
}

impl Writer {
    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column = if is_break(c) { 0 } else { self.column + 1 };
    }

    fn text(&mut self, text: &str) {
        text.chars().for_each(|c| self.put(c));
    }

    fn line(&mut self, indent: usize) {
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.put('\n');
        }
        (0..indent).for_each(|_| self.put(' '));
    }

    /// `inline`: the first entry stands where the writer is.
    fn mapping(&mut self, map: &Map<String, Value>, indent: usize, inline: bool) {
        let mut entries: Vec<(&String, &Value)> = map.iter().collect();
        entries.sort_by(|a, b| natural(a.0, b.0));
        for (at, (key, value)) in entries.into_iter().enumerate() {
            if at > 0 || !inline {
                self.line(indent);
            }
            let simple = key.len() <= SIMPLE_KEY && !key.contains(is_break);
            if simple {
                self.string(key, indent + 2, true);
                self.put(':');
            } else {
                self.text("? ");
                self.string(key, indent + 2, false);
                self.line(indent);
                self.put(':');
            }
            match value {
                Value::Object(map) if !map.is_empty() && simple => self.mapping(map, indent + 2, false),
                Value::Array(list) if !list.is_empty() && simple => self.sequence(list, indent, false),
                value => self.node(value, indent + 2),
            }
        }
    }

    fn sequence(&mut self, list: &[Value], indent: usize, inline: bool) {
        for (at, item) in list.iter().enumerate() {
            if at > 0 || !inline {
                self.line(indent);
            }
            self.put('-');
            self.node(item, indent + 2);
        }
    }

    /// What stands behind an indicator, on its line.
    fn node(&mut self, value: &Value, indent: usize) {
        self.put(' ');
        match value {
            Value::Object(map) if !map.is_empty() => self.mapping(map, indent, true),
            Value::Array(list) if !list.is_empty() => self.sequence(list, indent, true),
            scalar => self.scalar(scalar, indent),
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.text("null"),
            Value::Bool(on) => self.text(if *on { "true" } else { "false" }),
            Value::Number(number) => self.text(&scalar::number(number)),
            Value::String(text) => self.string(text, indent, false),
            Value::Array(_) => self.text("[]"),
            Value::Object(_) => self.text("{}"),
        }
    }

    fn string(&mut self, text: &str, indent: usize, key: bool) {
        let fits = scalar::Fits::of(text);
        let literal = text.contains('\n') && fits.block && !key;
        if literal {
            return self.literal(text, indent);
        }
        let plain = !text.contains('\n') && fits.plain && scalar::is_text(text) && !(text.is_empty() && key);
        if plain {
            self.folded(text, indent, !key, |_| false);
        } else if !text.contains('\n') && fits.single && scalar::is_text(text) {
            self.put('\'');
            self.folded(text, indent, !key, |c| c == '\'');
            self.put('\'');
        } else {
            self.double(text, indent, !key);
        }
    }

    /// Text in one style without escapes; `doubled` characters are written twice.
    fn folded(&mut self, text: &str, indent: usize, fold: bool, doubled: fn(char) -> bool) {
        let mut spaces = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, c)| *c);
            let inside = at > 0 && next.is_some() && next != Some(' ');
            if c == ' ' && fold && !spaces && self.column > WIDTH && inside {
                self.line(indent);
            } else {
                if doubled(c) {
                    self.put(c);
                }
                self.put(c);
            }
            spaces = c == ' ';
        }
    }

    fn double(&mut self, text: &str, indent: usize, fold: bool) {
        self.put('"');
        let mut spaces = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, c)| *c);
            if !scalar::is_printable(c) || is_break(c) || c == '"' || c == '\\' {
                self.escape(c);
            } else if c == ' ' && fold && !spaces && self.column > WIDTH && at > 0 && next.is_some() {
                self.line(indent);
                if next == Some(' ') {
                    self.put('\\');
                }
            } else {
                self.put(c);
            }
            spaces = c == ' ';
        }
        self.put('"');
    }

    fn escape(&mut self, c: char) {
        let short = match c {
            '\0' => '0',
            '\x07' => 'a',
            '\x08' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\x0b' => 'v',
            '\x0c' => 'f',
            '\r' => 'r',
            '\x1b' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => '?',
        };
        let code = u32::from(c);
        let mut text = String::new();
        let written = match (short, code) {
            ('?', 0..=0xff) => write!(text, "\\x{code:02X}"),
            ('?', 0..=0xffff) => write!(text, "\\u{code:04X}"),
            ('?', _) => write!(text, "\\U{code:08X}"),
            (short, _) => write!(text, "\\{short}"),
        };
        written.expect("a String takes all writes");
        self.text(&text);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put('|');
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.put('2');
        }
        let mut ends = text.chars().rev();
        match (ends.next().is_some_and(is_break), ends.next()) {
            (false, _) => self.put('-'),
            (true, before) if before.is_none_or(is_break) => self.put('+'),
            _ => {}
        }
        self.put('\n');
        let mut start = true;
        for c in text.chars() {
            if start && !is_break(c) {
                self.line(indent);
            }
            start = is_break(c);
            self.put(c);
        }
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The order of keys: numbers within them by value, letters behind everything else.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = (0..a.len().min(b.len())).find(|at| a[*at] != b[*at]) else {
        return a.len().cmp(&b.len());
    };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let significant = (a[at] == '0' || b[at] == '0')
        && a[..at].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
    let number = |text: &[char]| {
        let digits: Vec<u64> = text[at..].iter().map_while(|c| c.to_digit(10)).map(u64::from).collect();
        let start = u64::from(significant);
        (digits.iter().fold(start, |n, d| n.wrapping_mul(10).wrapping_add(*d)), digits.len())
    };
    number(&a).cmp(&number(&b)).then(a[at].cmp(&b[at]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::yaml;

    #[test]
    fn the_layout_is_upstreams() {
        let object = json!({"b": [{"z": 1, "a": [[1, 2], []]}], "a10": {"x": {}}, "a9": null, "0": true});
        assert_eq!(
            yaml(&object),
            "\"0\": true\na9: null\na10:\n  x: {}\nb:\n- a:\n  - - 1\n    - 2\n  - []\n  z: 1\n"
        );
        assert_eq!(yaml(&json!({})), "{}\n");
    }

    #[test]
    fn text_is_quoted_where_it_could_be_something_else() {
        for (text, written) in [
            ("abc", "abc"),
            ("", "\"\""),
            ("yes", "\"yes\""),
            ("1", "\"1\""),
            ("1e3", "\"1e3\""),
            ("08", "\"08\""),
            ("0x1f", "\"0x1f\""),
            ("12:30", "\"12:30\""),
            ("2006-01-02", "\"2006-01-02\""),
            ("2006-01-02T03:04:05Z", "\"2006-01-02T03:04:05Z\""),
            ("1.2.3.4", "1.2.3.4"),
            ("a: b", "'a: b'"),
            ("*", "'*'"),
            ("it's #1 ", "'it''s #1 '"),
            ("- a", "'- a'"),
            ("-a", "-a"),
            ("tab\there", "\"tab\\there\""),
            ("two\nlines", "|-\n  two\n  lines"),
            ("two\nlines\n", "|\n  two\n  lines"),
            (" x\n", "|2\n   x"),
        ] {
            assert_eq!(yaml(&json!({"k": text})), format!("k: {written}\n"), "{text:?}");
        }
    }

    #[test]
    fn long_lines_are_folded() {
        let text = "word ".repeat(20);
        let lines = yaml(&json!({"k": text.trim_end()}));
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(lines.lines().all(|line| line.len() < 90));
    }

    #[test]
    fn numbers_are_gos() {
        for (number, written) in [
            (json!(1.5), "1.5"),
            (json!(1_234_567.5), "1.2345675e+06"),
            (json!(0.00001), "1e-05"),
            (json!(7), "7"),
            (json!(u64::MAX), "18446744073709551615"),
        ] {
            assert_eq!(yaml(&number), format!("{written}\n"));
        }
    }
}
