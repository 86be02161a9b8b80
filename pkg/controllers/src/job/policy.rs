//! What a failed pod means, and when enough has succeeded. Pure.

use std::collections::BTreeSet;

use crate::views::{ContainerStatus, FailureRule, Job, Pod};

use super::indexes::parse;

/// What becomes of a failed pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It counts against the limit.
    Count,
    /// It does not count.
    Ignore,
    /// Its index has failed.
    FailIndex,
    /// The job has failed, with upstream's message.
    FailJob(String),
}

/// The first rule that matches decides.
pub(super) fn meaning(job: &Job, pod: &Pod) -> Meaning {
    let Some(policy) = &job.spec.pod_failure_policy else { return Meaning::Count };
    for (at, rule) in policy.rules.iter().enumerate() {
        let Some(why) = matches(rule, pod) else { continue };
        return match &*rule.action {
            "Ignore" => Meaning::Ignore,
            "FailIndex" => Meaning::FailIndex,
            "FailJob" => Meaning::FailJob(format!("{why} matching FailJob rule at index {at}")),
            _ => Meaning::Count,
        };
    }
    Meaning::Count
}

fn matches(rule: &FailureRule, pod: &Pod) -> Option<String> {
    let key = pod.metadata.key();
    if let Some(codes) = &rule.on_exit_codes {
        let status = &pod.status;
        let all = status.container_statuses.iter().chain(&status.init_container_statuses);
        let meant =
            |c: &&ContainerStatus| codes.container_name.as_deref().is_none_or(|name| *c.name == *name);
        for container in all.filter(meant) {
            let Some(end) = &container.state.terminated else { continue };
            let listed = codes.values.contains(&end.exit_code);
            let hit = end.exit_code != 0 && if &*codes.operator == "In" { listed } else { !listed };
            if hit {
                return Some(format!(
                    "Container {} for pod {key} failed with exit code {}",
                    container.name, end.exit_code
                ));
            }
        }
    }
    let pattern = rule.on_pod_conditions.iter().find(|p| {
        let status = if p.status.is_empty() { "True" } else { &p.status };
        pod.status.conditions.iter().any(|c| c.r#type == p.r#type && c.status == status)
    })?;
    Some(format!("Pod {key} has condition {}", pattern.r#type))
}

/// The message of the success rule that holds, if one does.
pub(super) fn success(job: &Job, succeeded: &BTreeSet<i64>) -> Option<String> {
    let policy = job.spec.success_policy.as_ref()?;
    let total = job.spec.completions.unwrap_or(0);
    policy.rules.iter().enumerate().find_map(|(at, rule)| {
        let eligible = rule.succeeded_indexes.as_deref().map(|text| parse(text, total));
        let hits = match &eligible {
            Some(set) => set.intersection(succeeded).count(),
            None => succeeded.len(),
        };
        let needed = match (rule.succeeded_count, &eligible) {
            (Some(count), _) => usize::try_from(count).unwrap_or(usize::MAX),
            (None, Some(set)) => set.len(),
            (None, None) => return None,
        };
        (hits >= needed).then(|| format!("Matched rules at index {at}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn job(spec: Value) -> Job {
        serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let job = job(json!({"podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
        ]}}));
        let pod = |status: Value| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns"}, "status": status}))
                .unwrap()
        };
        let ended = |code: i64| json!({"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]});
        assert_eq!(meaning(&job, &pod(ended(1))), Meaning::Count);
        let text = "Container main for pod ns/p failed with exit code 42 matching FailJob rule at index 1";
        assert_eq!(meaning(&job, &pod(ended(42))), Meaning::FailJob(text.to_owned()));
        let evicted = json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]});
        assert_eq!(meaning(&job, &pod(evicted)), Meaning::Ignore);
    }

    #[test]
    fn success_may_need_only_some() {
        let rules = |rule: Value| job(json!({"completions": 5, "successPolicy": {"rules": [rule]}}));
        let done = BTreeSet::from([0, 3]);
        assert!(success(&rules(json!({"succeededIndexes": "0,3"})), &done).is_some());
        assert!(success(&rules(json!({"succeededIndexes": "0-2"})), &done).is_none());
        assert!(success(&rules(json!({"succeededIndexes": "0-2", "succeededCount": 1})), &done).is_some());
        assert!(success(&rules(json!({"succeededCount": 3})), &done).is_none());
    }
}
