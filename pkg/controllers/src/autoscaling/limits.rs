//! How far a recommendation is followed at once. Pure, but for the history it keeps.

use std::time::Duration;

use tokio::time::Instant;

use super::views::{Behavior, Rules, Spec};

/// `--horizontal-pod-autoscaler-downscale-stabilization`.
const CALM: Duration = Duration::from_secs(300);
/// Nothing older is looked at.
const OLDEST: Duration = Duration::from_secs(3600);

/// What was recommended and done lately.
#[derive(Debug, Default)]
pub(super) struct History {
    recommended: Vec<(Instant, i64)>,
    /// Changes, positive and negative.
    changes: Vec<(Instant, i64)>,
}

/// How far a recommendation is followed, with the conditions that tell so.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) replicas: i64,
    /// Reason and message of `AbleToScale`.
    pub(super) able: (&'static str, &'static str),
    /// Status, reason and message of `ScalingLimited`.
    pub(super) limited: (bool, &'static str, &'static str),
}

type Reason = (&'static str, &'static str);
const WITHIN: Reason = ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_FEW: Reason =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const TOO_MANY: Reason =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FAST: Reason =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_FAST_DOWN: Reason =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const READY: Reason = ("ReadyForNewScale", "recommended size matches current size");
const HIGHER: Reason = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const LOWER: Reason = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);

impl History {
    /// A first look: what is there is the first recommendation.
    pub(super) fn of(current: i64) -> Self {
        Self { recommended: vec![(Instant::now(), current)], changes: Vec::new() }
    }

    /// Remembers a change that was made.
    pub(super) fn done(&mut self, from: i64, to: i64, now: Instant) {
        self.changes.push((now, to - from));
    }

    /// Bounds what is proposed.
    pub(super) fn limit(&mut self, spec: &Spec, current: i64, proposed: i64, now: Instant) -> Limited {
        self.recommended.retain(|(at, _)| now.duration_since(*at) < OLDEST);
        self.changes.retain(|(at, _)| now.duration_since(*at) < OLDEST);
        let behavior = spec.behavior.as_ref();
        let stable = self.stabilize(behavior, current, proposed, now);
        self.recommended.push((now, proposed));
        let able = match (stable == proposed, behavior.is_some() && proposed >= current) {
            (true, _) => READY,
            (false, true) => LOWER,
            (false, false) => HIGHER,
        };
        let (replicas, why) = match behavior {
            None => plain(spec, current, stable),
            Some(behavior) => self.at_rate(spec, behavior, current, stable, now),
        };
        Limited { replicas, able, limited: (replicas != stable, why.0, why.1) }
    }

    fn stabilize(&self, behavior: Option<&Behavior>, current: i64, proposed: i64, now: Instant) -> i64 {
        let window = |rules: Option<&Rules>, default: Duration| {
            rules.and_then(|r| r.stabilization_window_seconds).map_or(default, Duration::from_secs)
        };
        let within = |window: Duration| {
            self.recommended.iter().filter(move |(at, _)| now.duration_since(*at) < window).map(|(_, n)| *n)
        };
        let down = window(behavior.and_then(|b| b.scale_down.as_ref()), CALM);
        let highest = within(down).fold(proposed, i64::max);
        let Some(behavior) = behavior else { return highest };
        let lowest = within(window(behavior.scale_up.as_ref(), Duration::ZERO)).fold(proposed, i64::min);
        current.max(lowest).min(highest)
    }

    fn at_rate(
        &self,
        spec: &Spec,
        behavior: &Behavior,
        current: i64,
        wanted: i64,
        now: Instant,
    ) -> (i64, Reason) {
        let least = spec.min_replicas.unwrap_or(1);
        if wanted > current {
            let rate = self.rate(behavior.scale_up.as_ref(), current, 1, now).max(current);
            let (most, why) =
                if spec.max_replicas > rate { (rate, TOO_FAST) } else { (spec.max_replicas, TOO_MANY) };
            return if wanted > most { (most, why) } else { (wanted, WITHIN) };
        }
        if wanted < current {
            let rate = self.rate(behavior.scale_down.as_ref(), current, -1, now).min(current);
            let (few, why) = if least < rate { (rate, TOO_FAST_DOWN) } else { (least, TOO_FEW) };
            return if wanted < few { (few, why) } else { (wanted, WITHIN) };
        }
        (wanted, WITHIN)
    }

    /// How far the policies allow to go; `sign` is 1 upwards and -1 downwards.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "numbers of pods are small"
    )]
    fn rate(&self, rules: Option<&Rules>, current: i64, sign: i64, now: Instant) -> i64 {
        let Some(rules) = rules else { return i64::MAX * sign.signum().max(0) };
        let select = rules.select_policy.as_deref().unwrap_or("Max");
        if select == "Disabled" {
            return current;
        }
        let proposals = rules.policies.iter().map(|policy| {
            let period = Duration::from_secs(policy.period_seconds);
            let recent = self.changes.iter().filter(|(at, _)| now.duration_since(*at) < period);
            let start = current - recent.map(|(_, change)| change).sum::<i64>();
            if policy.r#type == "Pods" {
                return start + sign * policy.value;
            }
            let share = start as f64 * (1.0 + sign as f64 * policy.value as f64 / 100.0);
            if sign > 0 { share.ceil() as i64 } else { share as i64 }
        });
        // The largest change upwards is the largest number, downwards the smallest.
        let widest = (select == "Max") == (sign > 0);
        let chosen = if widest { proposals.max() } else { proposals.min() };
        chosen.unwrap_or(current)
    }
}

fn plain(spec: &Spec, current: i64, wanted: i64) -> (i64, Reason) {
    let least = spec.min_replicas.unwrap_or(1);
    let rate = (current * 2).max(4);
    let (most, why) = if spec.max_replicas > rate { (rate, TOO_FAST) } else { (spec.max_replicas, TOO_MANY) };
    if wanted < least {
        (least, TOO_FEW)
    } else if wanted > most {
        (most, why)
    } else {
        (wanted, WITHIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(behavior: Value) -> Spec {
        serde_json::from_value(json!({"minReplicas": 2, "maxReplicas": 10, "behavior": behavior})).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn up_at_once_and_down_after_a_while() {
        let spec = spec(Value::Null);
        let mut history = History::of(3);
        let up = history.limit(&spec, 3, 9, Instant::now());
        assert_eq!((up.replicas, up.limited.1), (6, "ScaleUpLimit"));
        let down = history.limit(&spec, 6, 1, Instant::now());
        assert_eq!((down.replicas, down.able.0), (9, "ScaleDownStabilized"));
        tokio::time::advance(Duration::from_secs(301)).await;
        let later = history.limit(&spec, 6, 1, Instant::now());
        assert_eq!((later.replicas, later.limited.1), (2, "TooFewReplicas"));
    }

    #[tokio::test(start_paused = true)]
    async fn policies_bound_the_change_of_a_period() {
        let policy = json!([{"type": "Pods", "value": 1, "periodSeconds": 60}]);
        let rules = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": policy});
        let spec = spec(json!({"scaleUp": rules, "scaleDown": rules}));
        let mut history = History::of(3);
        assert_eq!(history.limit(&spec, 3, 9, Instant::now()).replicas, 4);
        history.done(3, 4, Instant::now());
        let again = history.limit(&spec, 4, 9, Instant::now());
        assert_eq!((again.replicas, again.limited.1), (4, "ScaleUpLimit"));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(history.limit(&spec, 4, 9, Instant::now()).replicas, 5);
        assert_eq!(history.limit(&spec, 4, 2, Instant::now()).replicas, 3);
    }
}
