//! Images that are on a node already, weighed by how common they are.

use std::collections::HashMap;

use super::{Look, MOST};
use crate::node::Node;
use crate::pod::Pod;
use crate::snapshot::{NodeInfo, Snapshot};

const MIB: i64 = 1024 * 1024;
/// Less than this in all does not matter.
const LEAST: i64 = 23 * MIB;
/// More than this per container does not matter either.
const ENOUGH: i64 = 1000 * MIB;

/// On how many of the nodes each of the pod's images is.
#[derive(Debug, Default)]
pub(super) struct Spread {
    nodes: HashMap<Box<str>, i64>,
    total: i64,
}

pub(super) fn spread(pod: &Pod, snapshot: &Snapshot) -> Spread {
    let mut spread = Spread::default();
    for (node, _) in snapshot.nodes() {
        spread.total += 1;
        for image in pod.images.iter().filter(|image| node.images.contains_key(*image)) {
            *spread.nodes.entry(image.clone()).or_default() += 1;
        }
    }
    // An image of two containers was counted twice.
    for (image, count) in &mut spread.nodes {
        let times = pod.images.iter().filter(|other| *other == image).count();
        *count /= i64::try_from(times).unwrap_or(1).max(1);
    }
    spread
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "as upstream scales sizes")]
pub(super) fn score(look: &Look<'_>, node: &Node, _: &NodeInfo) -> i64 {
    let scaled = |image: &str| {
        let size = node.images.get(image)?;
        let on = look.images.nodes.get(image).copied().unwrap_or(0);
        Some((*size as f64 * (on as f64 / look.images.total.max(1) as f64)) as i64)
    };
    let sum: i64 = look.pod.images.iter().map(AsRef::as_ref).filter_map(scaled).sum();
    let most = ENOUGH * i64::try_from(look.pod.images.len()).unwrap_or(1);
    let sum = sum.clamp(LEAST, most.max(LEAST));
    if most <= LEAST { 0 } else { MOST * (sum - LEAST) / (most - LEAST) }
}

/// An image's name as nodes list it: with a tag.
pub(crate) fn normalized(name: &str) -> Box<str> {
    let path = name.rfind('/').unwrap_or(0);
    let tagged = name.rfind(':').is_some_and(|colon| colon > path);
    if tagged { name.into() } else { format!("{name}:latest").into() }
}
