//! Counting anew what is there.

use copepod_api::Quantity;
use jiff::Timestamp;
use serde_json::Value;

use crate::evaluator::ALIASES;
use crate::{Amounts, Evaluator, Term};

/// What the objects of one resource come to, for one quota.
#[derive(Debug, Clone)]
pub struct Tally<'a> {
    evaluator: &'a Evaluator,
    terms: &'a [Term],
    used: Amounts,
}

impl<'a> Tally<'a> {
    /// Nothing yet: zero under each of the quota's names that the resource counts under.
    #[must_use]
    pub fn new<'n>(evaluator: &'a Evaluator, terms: &'a [Term], hard: impl Iterator<Item = &'n str>) -> Self {
        let mut used = Amounts::default();
        for name in hard.filter(|name| evaluator.counts(name)) {
            used.set(name, Quantity::ZERO);
        }
        Self { evaluator, terms, used }
    }

    /// Counts one object.
    pub fn add(&mut self, object: &Value, now: Timestamp) {
        if self.terms.iter().all(|term| self.evaluator.in_scope(term, object)) {
            let usage = self.evaluator.usage(object, now);
            let counted = usage.only(|name| self.used.get(name).is_some());
            self.used.add(&counted);
        }
    }

    /// The sum.
    #[must_use]
    pub fn used(self) -> Amounts {
        self.used
    }
}

/// Group and resource of everything that one name in `hard` may count; a name that starts with `count/` is looked up
/// as written, so it may name a resource that does not exist.
#[must_use]
pub fn evaluators_of(name: &str) -> Vec<(String, String)> {
    const KNOWN: [(&str, &str); 4] = [
        ("", "pods"),
        ("", "services"),
        ("", "persistentvolumeclaims"),
        ("resource.k8s.io", "resourceclaims"),
    ];
    let own = |(group, resource): (&str, &str)| (group.to_owned(), resource.to_owned());
    if let Some(counted) = name.strip_prefix("count/") {
        return vec![own(counted
            .split_once('.')
            .map_or(("", counted), |(resource, group)| (group, resource)))];
    }
    let aliases = ALIASES.into_iter().map(|alias| ("", alias));
    let all = KNOWN.into_iter().chain(aliases);
    all.filter(|(group, resource)| Evaluator::of(group, resource).is_some_and(|e| e.counts(name)))
        .map(own)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_in_scope_is_counted() {
        let quota = json!({"spec": {"scopes": ["Terminating"], "hard": {"pods": "5", "services": "1"}}});
        let terms = Term::of_quota(&quota);
        let mut tally = Tally::new(&Evaluator::Pods, &terms, ["pods", "services"].into_iter());
        for pod in [json!({"spec": {"activeDeadlineSeconds": 1}}), json!({"spec": {}})] {
            tally.add(&pod, Timestamp::UNIX_EPOCH);
        }
        assert_eq!(tally.used().shown(), "pods=1");
        let mut tally = Tally::new(&Evaluator::Services, &terms, ["pods", "services"].into_iter());
        tally.add(&json!({}), Timestamp::UNIX_EPOCH);
        assert_eq!(tally.used().shown(), "services=0", "services are in no scope");
    }

    #[test]
    fn names_lead_to_resources() {
        assert_eq!(
            evaluators_of("count/widgets.example.com"),
            [("example.com".to_owned(), "widgets".to_owned())]
        );
        assert_eq!(evaluators_of("secrets"), [(String::new(), "secrets".to_owned())]);
        assert_eq!(
            evaluators_of("gold.storageclass.storage.k8s.io/requests.storage")[0].1,
            "persistentvolumeclaims"
        );
        assert_eq!(evaluators_of("requests.cpu")[0].1, "pods");
        assert!(evaluators_of("bogus").is_empty());
    }
}
