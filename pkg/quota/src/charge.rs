//! Charging one write to the quotas of its namespace.

use copepod_api::{Quantity, meta};
use jiff::Timestamp;
use serde_json::Value;

use crate::{Amounts, Evaluator, Term};

/// A quota as far as charging goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub terms: Vec<Term>,
    /// `status.hard`.
    pub hard: Amounts,
    /// `status.used`.
    pub used: Amounts,
}

impl Quota {
    /// Reads a ResourceQuota.
    #[must_use]
    pub fn read(quota: &Value) -> Self {
        Self {
            name: meta::name(quota).to_owned(),
            terms: Term::of_quota(quota),
            hard: Amounts::read(quota.pointer("/status/hard")),
            used: Amounts::read(quota.pointer("/status/used")),
        }
    }

    fn about(&self, evaluator: &Evaluator, object: &Value) -> bool {
        self.hard.0.keys().any(|name| evaluator.counts(name))
            && self.terms.iter().all(|term| evaluator.in_scope(term, object))
    }
}

/// One write.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// The new object.
    pub object: &'a Value,
    /// The object before, when it is an update.
    pub old: Option<&'a Value>,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// The quotas with the write charged to them, or upstream's words for why it does not fit.
///
/// # Errors
/// The reason of a 403.
pub fn charge(quotas: &[Quota], evaluator: &Evaluator, write: Write<'_>) -> Result<Vec<Quota>, String> {
    let mut charged = quotas.to_vec();
    let interesting: Vec<usize> =
        (0..quotas.len()).filter(|at| quotas[*at].about(evaluator, write.object)).collect();
    for quota in interesting.iter().map(|at| &quotas[*at]) {
        check_terms(quota, evaluator, write.object)?;
    }
    let asked = evaluator.usage(write.object, write.now);
    let negative = asked.only(|name| asked.get(name).is_some_and(|amount| amount < Quantity::ZERO));
    if !negative.0.is_empty() {
        let names: Vec<_> = negative.0.into_keys().collect();
        return Err(format!("quota usage is negative for resource(s): {}", names.join(",")));
    }
    // What was there before counts already; an object that did not exist (created by an update) has no version.
    let before = write.old.filter(|old| !meta::resource_version(old).is_empty());
    let used_before = before.map(|old| evaluator.usage(old, write.now));
    for at in interesting {
        let quota = &mut charged[at];
        let delta = match before.zip(used_before.as_ref()) {
            Some((old, was)) if quota.about(evaluator, old) => asked.increase_over(was),
            _ => asked.clone(),
        };
        add(quota, &delta, write.subresource != "status")?;
    }
    Ok(charged)
}

fn check_terms(quota: &Quota, evaluator: &Evaluator, object: &Value) -> Result<(), String> {
    let names: Vec<&str> =
        quota.hard.0.keys().map(String::as_str).filter(|name| evaluator.counts(name)).collect();
    evaluator.constraints(&names, object).map_err(|why| format!("failed quota: {}: {why}", quota.name))?;
    if names.iter().any(|name| quota.used.get(name).is_none()) {
        return Err(format!("status unknown for quota: {}, resources: {}", quota.name, names.join(",")));
    }
    Ok(())
}

fn add(quota: &mut Quota, delta: &Amounts, bounded: bool) -> Result<(), String> {
    let requested = delta.only(|name| {
        quota.hard.get(name).is_some() && delta.get(name).is_some_and(|amount| !amount.is_zero())
    });
    let mut used = quota.used.clone();
    used.add(&requested);
    let over = |name: &str| {
        requested.get(name).is_some() && used.get(name).zip(quota.hard.get(name)).is_some_and(|(u, h)| u > h)
    };
    let exceeded = requested.only(over);
    if bounded && !exceeded.0.is_empty() {
        let of = |amounts: &Amounts| amounts.only(|name| exceeded.get(name).is_some()).shown();
        return Err(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name,
            exceeded.shown(),
            of(&quota.used),
            of(&quota.hard)
        ));
    }
    quota.used = used;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn quota(hard: Value, used: Value) -> Quota {
        Quota::read(&json!({"metadata": {"name": "q"}, "status": {"hard": hard, "used": used}}))
    }

    fn pod(cpu: &str) -> Value {
        json!({"metadata": {"resourceVersion": "5"}, "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]}})
    }

    fn write<'a>(object: &'a Value, old: Option<&'a Value>, subresource: &'a str) -> Write<'a> {
        Write { object, old, subresource, now: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn what_fits_is_charged_and_what_does_not_is_told() {
        let quotas = [quota(json!({"pods": "5", "cpu": "1500m"}), json!({"pods": "1", "cpu": "1"}))];
        let small = pod("500m");
        let charged = charge(&quotas, &Evaluator::Pods, write(&small, None, "")).unwrap();
        assert_eq!(charged[0].used.shown(), "cpu=1500m,pods=2");
        let large = pod("600m");
        assert_eq!(
            charge(&quotas, &Evaluator::Pods, write(&large, None, "")).unwrap_err(),
            "exceeded quota: q, requested: cpu=600m, used: cpu=1, limited: cpu=1500m"
        );
    }

    #[test]
    fn an_update_pays_the_difference() {
        let quotas = [quota(json!({"cpu": "1"}), json!({"cpu": "500m"}))];
        let (old, new) = (pod("500m"), pod("1"));
        let charged = charge(&quotas, &Evaluator::Pods, write(&new, Some(&old), "resize")).unwrap();
        assert_eq!(charged[0].used.shown(), "cpu=1");
        let charged = charge(&quotas, &Evaluator::Pods, write(&old, Some(&new), "resize")).unwrap();
        assert_eq!(charged, quotas, "nothing is given back: that is the controller's");
    }

    #[test]
    fn a_quota_that_is_not_counted_yet_lets_nothing_through() {
        let quotas = [quota(json!({"count/secrets": "5"}), json!({}))];
        let secret = Evaluator::of("", "secrets").unwrap();
        assert_eq!(
            charge(&quotas, &secret, write(&json!({}), None, "")).unwrap_err(),
            "status unknown for quota: q, resources: count/secrets"
        );
        let maps = Evaluator::of("", "configmaps").unwrap();
        assert_eq!(charge(&quotas, &maps, write(&json!({}), None, "")).unwrap(), quotas);
    }
}
