//! Which of several nodes is best. Each scorer gives 0 to 100; weights, scales and roundings are upstream's.

mod affinity;
mod images;
mod resources;
mod spread;

use std::sync::Arc;

pub(crate) use images::normalized;

use crate::node::Node;
use crate::pod::Pod;
use crate::snapshot::{NodeInfo, Snapshot};

/// The best a scorer can say.
const MOST: i64 = 100;

/// What is computed once per pod.
#[derive(Debug)]
struct Look<'a> {
    pod: &'a Pod,
    affinity: affinity::Sums,
    images: images::Spread,
    spread: Vec<spread::Soft>,
}

type Raw = fn(&Look<'_>, &Node, &NodeInfo) -> i64;

/// How raw scores become scores.
#[derive(Debug, Clone, Copy)]
enum Scale {
    /// They are scores already.
    Plain,
    /// The largest is the best; nothing is nothing.
    Largest,
    /// The largest is the worst.
    Smallest,
    /// From the least to the most.
    Range,
    /// The emptiest is the best, the fullest keeps the share of the emptiest.
    Emptiest,
}

/// Name, weight, raw score and scale.
const SCORERS: &[(&str, i64, Raw, Scale)] = &[
    ("TaintToleration", 3, soft_taints, Scale::Smallest),
    ("NodeAffinity", 2, preferred_nodes, Scale::Largest),
    ("NodeResourcesFit", 1, resources::least_allocated, Scale::Plain),
    ("PodTopologySpread", 2, spread::crowding, Scale::Emptiest),
    ("InterPodAffinity", 2, affinity::score, Scale::Range),
    ("NodeResourcesBalancedAllocation", 1, resources::balance, Scale::Plain),
    ("ImageLocality", 1, images::score, Scale::Plain),
];

/// The best of `fits`; of equals the first by name, so that the choice can be explained.
#[must_use]
pub fn best(pod: &Pod, snapshot: &Snapshot, fits: &[Arc<Node>]) -> Option<Arc<Node>> {
    // Where there is no choice nothing has to be compared.
    if let [] | [_] = fits {
        return fits.first().cloned();
    }
    let look = Look {
        pod,
        affinity: affinity::sums(pod, snapshot),
        images: images::spread(pod, snapshot),
        spread: spread::soft(pod, snapshot, fits),
    };
    let mut totals = vec![0; fits.len()];
    for (_, weight, raw, scale) in SCORERS {
        let score = |node: &Arc<Node>| snapshot.node(&node.name).map_or(0, |info| raw(&look, node, info));
        let scores = scaled(&fits.iter().map(score).collect::<Vec<_>>(), *scale);
        totals.iter_mut().zip(scores).for_each(|(total, score)| *total += weight * score);
    }
    let mut best: Option<(i64, &Arc<Node>)> = None;
    for (total, node) in totals.into_iter().zip(fits) {
        if best.is_none_or(|(most, _)| total > most) {
            best = Some((total, node));
        }
    }
    best.map(|(_, node)| Arc::clone(node))
}

fn scaled(raw: &[i64], scale: Scale) -> Vec<i64> {
    let most = raw.iter().copied().max().unwrap_or(0);
    let least = raw.iter().copied().min().unwrap_or(0);
    let one = |score: i64| match scale {
        Scale::Plain => score,
        Scale::Largest if most == 0 => score,
        Scale::Largest => score * MOST / most,
        Scale::Smallest | Scale::Emptiest if most == 0 => MOST,
        Scale::Smallest => MOST - score * MOST / most,
        Scale::Range if most == least => 0,
        Scale::Range => (score - least) * MOST / (most - least),
        Scale::Emptiest => (most + least - score) * MOST / most,
    };
    raw.iter().copied().map(one).collect()
}

fn soft_taints(look: &Look<'_>, node: &Node, _: &NodeInfo) -> i64 {
    let soft = node.taints.iter().filter(|t| &*t.effect == "PreferNoSchedule");
    let bad = soft.filter(|taint| !look.pod.tolerations.iter().any(|t| t.tolerates(taint)));
    i64::try_from(bad.count()).unwrap_or(i64::MAX)
}

fn preferred_nodes(look: &Look<'_>, node: &Node, _: &NodeInfo) -> i64 {
    let terms = look.pod.affinity.iter().flat_map(|a| &a.node_affinity.preferred);
    terms.filter(|t| t.preference.matches(&node.name, &node.labels)).map(|t| t.weight).sum()
}

#[cfg(test)]
mod tests;
