//! Whom to displace for a more important pod. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::filter::{Cycle, Refusal};
use crate::pod::Pod;
use crate::selector::{Labels, Selector};
use crate::snapshot::Snapshot;

/// What preemption reads of a PodDisruptionBudget.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    /// Namespace.
    pub namespace: String,
    /// Which pods it protects.
    pub selector: Selector,
    /// How many may go now.
    pub allowed: i64,
}

/// A node and who would have to go there.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The node.
    pub node: Box<str>,
    /// The victims, most important first.
    pub victims: Vec<Arc<Pod>>,
    /// How many of them a budget protects.
    pub violations: usize,
}

/// The best way to make room for `pod`, or per node why there is none.
///
/// # Errors
/// A refusal for each node when nothing helps.
pub fn plan_preemption(
    pod: &Pod,
    snapshot: &Snapshot,
    refused: &BTreeMap<Box<str>, Refusal>,
    budgets: &[Budget],
) -> Result<Candidate, BTreeMap<Box<str>, Refusal>> {
    let mut candidates = Vec::new();
    let mut why = BTreeMap::new();
    let no = |text: &str| Refusal { reasons: vec![text.to_owned()], resolvable: false };
    for (name, refusal) in refused {
        if !refusal.resolvable {
            why.insert(name.clone(), no("Preemption is not helpful for scheduling"));
            continue;
        }
        match victims(pod, snapshot, name, budgets) {
            Ok(candidate) => candidates.push(candidate),
            Err(text) => {
                why.insert(name.clone(), no(text));
            }
        }
    }
    candidates.into_iter().min_by_key(rank).ok_or(why)
}

/// Fewest protected victims, then the least important ones, then the fewest.
fn rank(candidate: &Candidate) -> (usize, i32, i64, usize) {
    let priorities = || candidate.victims.iter().map(|v| v.priority);
    let sum = priorities().map(|p| i64::from(p) + i64::from(i32::MAX)).sum();
    (candidate.violations, priorities().max().unwrap_or(i32::MIN), sum, candidate.victims.len())
}

/// Takes all less important pods away; if the pod then fits, gives back as many as possible, the protected and the
/// important first.
fn victims(
    pod: &Pod,
    snapshot: &Snapshot,
    node: &str,
    budgets: &[Budget],
) -> Result<Candidate, &'static str> {
    let mut trial = snapshot.clone();
    let info = trial.node_mut(node).ok_or("Preemption is not helpful for scheduling")?;
    let mut lower: Vec<_> = info.pods.iter().filter(|p| p.priority < pod.priority).cloned().collect();
    if lower.is_empty() {
        return Err("No preemption victims found for incoming pod");
    }
    lower.iter().for_each(|p| info.remove(&p.uid));
    if !fits(pod, &trial, node) {
        return Err("Preemption is not helpful for scheduling");
    }
    lower.sort_by_key(|p| (std::cmp::Reverse(p.priority), p.started, p.created));
    let (protected, free) = split(lower, budgets);
    let mut victims = Vec::new();
    let mut violations = 0;
    for (candidate, is_protected) in
        protected.into_iter().map(|p| (p, true)).chain(free.into_iter().map(|p| (p, false)))
    {
        if let Some(info) = trial.node_mut(node) {
            info.add(Arc::clone(&candidate));
        }
        if fits(pod, &trial, node) {
            continue;
        }
        if let Some(info) = trial.node_mut(node) {
            info.remove(&candidate.uid);
        }
        violations += usize::from(is_protected);
        victims.push(candidate);
    }
    victims.sort_by_key(|p| std::cmp::Reverse(p.priority));
    Ok(Candidate { node: node.into(), victims, violations })
}

fn fits(pod: &Pod, snapshot: &Snapshot, node: &str) -> bool {
    let Some(info) = snapshot.node(node) else { return false };
    info.node.as_ref().is_some_and(|n| Cycle::new(pod, snapshot).check(n, info).is_none())
}

/// Pods whose going would exceed a budget, and the rest.
fn split(pods: Vec<Arc<Pod>>, budgets: &[Budget]) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    let mut left: Vec<i64> = budgets.iter().map(|b| b.allowed).collect();
    pods.into_iter().partition(|pod| {
        let mut exceeded = false;
        for (budget, left) in budgets.iter().zip(&mut left) {
            if !pod.labels.is_empty() && budget.namespace == pod.key.namespace && covers(budget, &pod.labels)
            {
                *left -= 1;
                exceeded |= *left < 0;
            }
        }
        exceeded
    })
}

fn covers(budget: &Budget, labels: &Labels) -> bool {
    !budget.selector.0.is_empty() && budget.selector.0.matches(labels)
}
