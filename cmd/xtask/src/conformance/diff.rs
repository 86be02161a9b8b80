//! What changed between two runs.

use std::collections::BTreeMap;

use super::results::{Outcome, Results, Verdict};

/// How many times slower than upstream is worth a line, and the seconds below which it is noise.
const SLOW: (f64, f64) = (2.0, 5.0);

/// The differences as text.
pub(super) fn render(old: &Results, new: &Results, upstream: &BTreeMap<String, f64>) -> String {
    let passed = |o: Option<&Outcome>| o.is_some_and(|o| o.verdict == Verdict::Passed);
    let failed = |o: Option<&Outcome>| o.is_some_and(|o| o.verdict == Verdict::Failed);
    let mut text = String::new();
    let mut section = |title: &str, lines: Vec<String>| {
        text += &format!("{title}: {}\n", lines.len());
        for line in lines {
            text += &format!("  {line}\n");
        }
    };
    let both = || new.specs.iter().map(|(name, outcome)| (name, old.specs.get(name), outcome));
    let first = |o: Option<&Outcome>| if o.is_none() { " (not run before)" } else { "" };
    let newly = both().filter(|(_, o, n)| !passed(*o) && passed(Some(n)));
    section("newly passing", newly.map(|(name, o, _)| format!("{name}{}", first(o))).collect());
    let newly = both().filter(|(_, o, n)| !failed(*o) && failed(Some(n)));
    section("newly failing", newly.map(|(name, o, n)| format!("{name}{}: {}", first(o), n.cause)).collect());
    let gone = old.specs.keys().filter(|name| !new.specs.contains_key(*name));
    section("no longer run", gone.cloned().collect());
    let slow = both().filter_map(|(name, _, n)| slower(name, n, upstream));
    section("slower than twice upstream", slow.collect());
    text
}

/// A line about a spec that takes more than twice upstream's time.
pub(super) fn slower(name: &str, outcome: &Outcome, upstream: &BTreeMap<String, f64>) -> Option<String> {
    let theirs = upstream.get(name)?;
    let slow =
        outcome.verdict == Verdict::Passed && outcome.seconds > SLOW.1 && outcome.seconds > SLOW.0 * theirs;
    slow.then(|| format!("{:.0} s, upstream {theirs:.0} s: {name}", outcome.seconds))
}

#[cfg(test)]
mod tests {
    use super::super::results::outcome;
    use super::*;

    #[test]
    fn changes_are_sorted_into_their_kinds() {
        let results = |specs: &[(&str, Outcome)]| Results {
            specs: specs.iter().map(|(name, outcome)| ((*name).to_string(), outcome.clone())).collect(),
            apiserver_peak_kib: None,
        };
        let (good, bad) = (outcome(Verdict::Passed, 9.0, ""), outcome(Verdict::Failed, 1.0, "why"));
        let old = results(&[("a", bad.clone()), ("b", good.clone()), ("d", good.clone())]);
        let new = results(&[("a", good.clone()), ("b", bad), ("c", good)]);
        let upstream = BTreeMap::from([("a".to_string(), 2.0), ("c".to_string(), 8.0)]);
        assert_eq!(
            render(&old, &new, &upstream),
            "newly passing: 2\n  a\n  c (not run before)\nnewly failing: 1\n  b: why\nno longer run: 1\n  d\n\
             slower than twice upstream: 1\n  9 s, upstream 2 s: a\n"
        );
    }
}
