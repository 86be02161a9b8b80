//! Prometheus' text format.

use std::fmt::Write as _;

/// A text of metric families, built in the order it is written.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// The media type of the text.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Starts a family; `kind` is `counter`, `gauge` or `histogram`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// One sample of the family started last.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let mut text = String::new();
        for (index, (key, value)) in labels.iter().enumerate() {
            let separator = if index == 0 { "{" } else { "," };
            text.push_str(separator);
            text.push_str(key);
            text.push_str("=\"");
            text.extend(value.chars().flat_map(escape));
            text.push('"');
        }
        if !labels.is_empty() {
            text.push('}');
        }
        self.line(format_args!("{name}{text} {value}"));
    }

    /// One sample with its time in milliseconds since 1970.
    pub fn sample_at(&mut self, name: &str, labels: &[(&str, &str)], value: f64, millis: i64) {
        self.sample(name, labels, value);
        self.0.pop();
        self.line(format_args!(" {millis}"));
    }

    /// The text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("writing to a string cannot fail");
        self.0.push('\n');
    }
}

fn escape(c: char) -> impl Iterator<Item = char> {
    let (first, second) = match c {
        '\\' => ('\\', Some('\\')),
        '"' => ('\\', Some('"')),
        '\n' => ('\\', Some('n')),
        other => (other, None),
    };
    std::iter::once(first).chain(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_samples() {
        let mut text = Exposition::default();
        text.family("up", "gauge", "Whether it is up.");
        text.sample("up", &[], 1.0);
        text.sample("up", &[("a", "x\"y"), ("b", "z")], 0.5);
        text.sample_at("up", &[], 2.0, 7);
        let want =
            "# HELP up Whether it is up.\n# TYPE up gauge\nup 1\nup{a=\"x\\\"y\",b=\"z\"} 0.5\nup 2 7\n";
        assert_eq!(text.into_string(), want);
    }
}
