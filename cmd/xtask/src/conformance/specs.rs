//! The specs: their names and which of them are wanted.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use regex_lite::Regex;

/// Seconds and name of each spec as upstream's own components ran it on a machine like ours.
const TIMES: &str = include_str!("../../../../testdata/conformance/upstream-seconds.tsv");

/// Specs that a single node cannot pass, and why.
pub(super) const IMPOSSIBLE: &[(&str, &str)] = &[
    (
        "[sig-architecture] Conformance Tests should have at least two untainted nodes [Conformance]",
        "needs two nodes",
    ),
    (
        "[sig-apps] Daemon set should rollback without unnecessary restarts [Conformance] [Serial]",
        "needs two nodes",
    ),
];

/// Upstream's seconds for each spec.
pub(super) fn upstream_seconds() -> anyhow::Result<BTreeMap<String, f64>> {
    let line = |line: &str| -> anyhow::Result<(String, f64)> {
        let (seconds, name) = line.split_once('\t').with_context(|| format!("no tab in {line:?}"))?;
        Ok((name.to_string(), seconds.parse().with_context(|| line.to_string())?))
    };
    TIMES.lines().filter(|l| !l.starts_with('#')).map(line).collect()
}

/// The names of all conformance specs, sorted.
pub(super) fn all() -> anyhow::Result<Vec<String>> {
    Ok(upstream_seconds()?.into_keys().collect())
}

/// The special interest group of a spec: the text of its first bracket.
pub(super) fn sig(spec: &str) -> &str {
    spec.strip_prefix('[').and_then(|rest| rest.split(']').next()).unwrap_or("none")
}

/// Which specs are wanted; an empty choice wants all.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    /// With or without `sig-`.
    pub(super) sigs: Vec<String>,
    /// Any of them has to match.
    pub(super) focus: Vec<String>,
    /// None of them may match.
    pub(super) skip: Vec<String>,
    /// Whole names; the closing tags may be left out.
    pub(super) specs: Vec<String>,
    /// `i/n`: every n-th of what is left, beginning with the i-th.
    pub(super) shard: Option<String>,
}

impl Choice {
    /// Whether nothing is left out.
    pub(super) fn is_everything(&self) -> bool {
        self.sigs.is_empty()
            && self.focus.is_empty()
            && self.skip.is_empty()
            && self.specs.is_empty()
            && self.shard.is_none()
    }

    /// The chosen ones of `all`.
    pub(super) fn apply(&self, all: Vec<String>) -> anyhow::Result<Vec<String>> {
        let patterns = |list: &[String]| -> anyhow::Result<Vec<Regex>> {
            list.iter().map(|p| Regex::new(p).with_context(|| p.clone())).collect()
        };
        let (focus, skip) = (patterns(&self.focus)?, patterns(&self.skip)?);
        for name in &self.specs {
            ensure!(all.iter().any(|spec| is_named(spec, name)), "no conformance spec is called {name:?}");
        }
        let wanted = |spec: &String| {
            let sig = sig(spec);
            (self.sigs.is_empty() || self.sigs.iter().any(|s| *s == sig || format!("sig-{s}") == sig))
                && (focus.is_empty() || focus.iter().any(|f| f.is_match(spec)))
                && !skip.iter().any(|s| s.is_match(spec))
                && (self.specs.is_empty() || self.specs.iter().any(|name| is_named(spec, name)))
        };
        let chosen: Vec<String> = all.into_iter().filter(wanted).collect();
        let Some(shard) = &self.shard else { return Ok(chosen) };
        let (index, count) = parse_shard(shard)?;
        Ok(chosen.into_iter().skip(index - 1).step_by(count).collect())
    }
}

/// Whether `name` means `spec`; tags at the end of a spec may be left out.
fn is_named(spec: &str, name: &str) -> bool {
    let name = name.trim();
    spec == name || spec.strip_prefix(name).is_some_and(|rest| rest.starts_with(" ["))
}

fn parse_shard(shard: &str) -> anyhow::Result<(usize, usize)> {
    let numbers = shard.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((index, count)) if 1 <= index && index <= count => Ok((index, count)),
        _ => bail!("a shard is i/n with i from 1 to n, not {shard:?}"),
    }
}

/// `name` as a regular expression of Go that matches no other spec. The suite's own name stands before each spec's.
pub(super) fn exactly(name: &str) -> String {
    let mut pattern = String::new();
    for letter in name.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern + "$"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(choice: &Choice) -> Vec<String> {
        let all = ["[sig-a] x [Conformance]", "[sig-a] xy [Conformance] [Serial]", "[sig-b] x [Conformance]"];
        choice.apply(all.map(String::from).to_vec()).unwrap()
    }

    #[test]
    fn the_table_has_every_spec_once() {
        let all = all().unwrap();
        assert_eq!(all.len(), 462);
        assert!(IMPOSSIBLE.iter().all(|(name, _)| all.iter().any(|spec| spec == name)));
        assert_eq!(sig(&all[0]), "sig-api-machinery");
    }

    #[test]
    fn choices_narrow_each_other() {
        let sigs = vec!["a".to_string()];
        assert_eq!(choose(&Choice { sigs: sigs.clone(), ..Choice::default() }).len(), 2);
        let focus = vec!["Serial".to_string()];
        assert_eq!(
            choose(&Choice { sigs: sigs.clone(), focus: focus.clone(), ..Choice::default() }).len(),
            1
        );
        assert_eq!(choose(&Choice { skip: focus, ..Choice::default() }).len(), 2);
    }

    #[test]
    fn a_name_is_exact_up_to_its_tags() {
        let specs = vec!["[sig-a] x".to_string()];
        assert_eq!(choose(&Choice { specs, ..Choice::default() }), ["[sig-a] x [Conformance]"]);
        let unknown = Choice { specs: vec!["[sig-a] z".to_string()], ..Choice::default() };
        assert!(unknown.apply(vec!["[sig-a] x".to_string()]).is_err());
    }

    #[test]
    fn shards_are_disjoint_and_complete() {
        let shard = |s: &str| choose(&Choice { shard: Some(s.to_string()), ..Choice::default() }).len();
        assert_eq!((shard("1/2"), shard("2/2")), (2, 1));
        for wrong in ["0/2", "3/2", "1", "a/b"] {
            assert!(parse_shard(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_smoke_set_names_specs_of_every_group() {
        let text = include_str!("../../../../testdata/conformance/smoke.txt");
        let specs: Vec<String> = text.lines().filter(|l| !l.starts_with('#')).map(String::from).collect();
        let chosen = Choice { specs: specs.clone(), ..Choice::default() }.apply(all().unwrap()).unwrap();
        assert_eq!(chosen.len(), specs.len(), "a name means two specs");
        let sigs: std::collections::BTreeSet<&str> = chosen.iter().map(|spec| sig(spec)).collect();
        assert_eq!(sigs.len(), 9, "all but sig-architecture, whose one spec needs two nodes: {sigs:?}");
    }

    #[test]
    fn patterns_are_quoted() {
        assert_eq!(exactly("[a] b. (c)"), r"\[a\] b\. \(c\)$");
    }
}
