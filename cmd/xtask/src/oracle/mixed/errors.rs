//! Error lines of a component's log, made comparable.

use std::collections::BTreeMap;

use regex_lite::{Captures, Regex};

/// Error lines by what is common to their repetitions.
pub(super) type Errors = BTreeMap<String, Found>;

/// How often a line came, and how it read the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) count: usize,
    pub(super) first: String,
}

/// What differs between two runs of the same, and its stand-in. Order matters.
const VARIABLE: &[(&str, &str)] = &[
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"\b[0-9a-f]{32,}\b", "ID"),
    (r"\b\d+\.\d+\.\d+\.\d+\b", "IP"),
    // The hash of a template, the rest of a generated name, or both.
    (r"(-[bcdfghjklmnpqrstvwxz2456789]{5,10})+\b", "-NAME"),
    (r"\d+(\.\d+)?(ns|µs|ms|s|m|h)\b", "TIME"),
    (r"\d+", "#"),
];

/// Errors of upstream's that come or not by chance on its own API server too: a part of the text, and why.
const BY_CHANCE: &[(&str, &str)] = &[
    ("Skipping pod synchronization", "which of its own checks a starting kubelet has not done yet"),
    ("Failed to initialize CSINode", "a starting kubelet may look for its Node before it has made it"),
    (
        "is not as new as written version",
        "a controller meets its own write before its watch does, and tries again",
    ),
];

/// The errors of a log. Ours are those of tracing, where a warning counts as well; upstream's are those of klog, and
/// what a Go program says when it dies.
pub(super) fn find(log: &str) -> Errors {
    let line = Pattern::new();
    let mut found = Errors::new();
    for (text, raw) in log.lines().filter_map(|raw| Some((line.error(raw)?, raw))) {
        let entry = found.entry(line.normal(&text));
        entry.or_insert_with(|| Found { count: 0, first: raw.to_owned() }).count += 1;
    }
    found
}

/// What of `errors` the `reference` never said, but for what comes by chance.
pub(super) fn beyond(errors: &Errors, reference: &Errors) -> Vec<Found> {
    let chance = |key: &str| BY_CHANCE.iter().any(|(part, _)| key.contains(part));
    let new = errors.iter().filter(|(key, _)| !reference.contains_key(*key) && !chance(key));
    new.map(|(_, found)| found.clone()).collect()
}

struct Pattern {
    klog: Regex,
    tracing: Regex,
    colours: Regex,
    variable: Vec<(Regex, &'static str)>,
}

impl Pattern {
    fn new() -> Self {
        let regex = |text: &str| Regex::new(text).expect("a literal pattern");
        Self {
            klog: regex(r"^([EF])\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ (.*)$"),
            tracing: regex(r"^\d{4}-\d\d-\d\dT[0-9:.]+Z\s+(ERROR|WARN) (.*)$"),
            colours: regex("\u{1b}\\[[0-9;]*m"),
            variable: VARIABLE.iter().map(|(text, stand_in)| (regex(text), *stand_in)).collect(),
        }
    }

    /// The text of a line that is an error.
    fn error(&self, line: &str) -> Option<String> {
        let plain = self.colours.replace_all(line, "");
        let text = |captures: Captures<'_>| format!("{} {}", &captures[1], &captures[2]);
        let dying = ["panic: ", "fatal error: ", "thread '"].iter().any(|start| plain.starts_with(start));
        let said = self.klog.captures(&plain).or_else(|| self.tracing.captures(&plain)).map(text);
        said.or_else(|| dying.then(|| plain.to_string()))
    }

    fn normal(&self, text: &str) -> String {
        let all = self.variable.iter();
        all.fold(text.to_owned(), |text, (what, stand_in)| what.replace_all(&text, *stand_in).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KLOG: &str = "\
I1201 01:02:03.000001    12 a.go:1] \"fine\"
E1201 01:02:03.000001    12 a.go:17] \"Error syncing pod\" pod=\"mixed/web-6d4cf56db6-x7k2p\" took=\"1.5s\"
E1201 01:05:00.000001    12 a.go:17] \"Error syncing pod\" pod=\"mixed/web-77f8c9d6b5-zx9cd\" took=\"2s\"
W1201 01:05:00.000001    12 b.go:2] deprecated
F1201 01:06:00.000001    12 c.go:3] dial 10.0.0.1:6443
";

    #[test]
    fn repetitions_are_one_error() {
        let found = find(KLOG);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found.values().map(|f| f.count).max(), Some(2));
        assert!(found.keys().any(|key| key.contains("dial IP:#")), "{found:?}");
    }

    #[test]
    fn ours_and_deaths_are_seen() {
        let log = "\u{1b}[2m2026-12-01T01:02:03.5Z\u{1b}[0m \u{1b}[33m WARN\u{1b}[0m copepod: slow\n\
                   2026-12-01T01:02:03.5Z  INFO copepod: fine\npanic: nil\n2026-12-01T01:02:03.5Z ERROR copepod: bad\n";
        assert_eq!(
            find(log).keys().collect::<Vec<_>>(),
            ["ERROR copepod: bad", "WARN copepod: slow", "panic: nil"]
        );
    }

    #[test]
    fn what_the_reference_says_too_is_no_difference() {
        let one = find("E1201 01:02:03.1    12 a.go:17] x 5\nE1201 01:02:03.1    12 a.go:18] y\n");
        let reference = find("E1201 09:02:03.1    99 a.go:44] x 7\n");
        let new = beyond(&one, &reference);
        assert_eq!(new.len(), 1);
        assert!(new[0].first.ends_with("] y"));
    }
}
