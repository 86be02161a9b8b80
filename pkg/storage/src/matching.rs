//! Which volume fits a claim best.

use std::sync::Arc;

use crate::{Claim, PersistentVolume};

fn mode(mode: Option<&str>) -> &str {
    mode.unwrap_or("Filesystem")
}

/// Whether one is a file system and the other a device.
#[must_use]
pub fn modes_differ(claim: &Claim, volume: &PersistentVolume) -> bool {
    mode(claim.spec.volume_mode.as_deref()) != mode(volume.spec.volume_mode.as_deref())
}

fn attributes_differ(claim: &Claim, volume: &PersistentVolume) -> bool {
    let name = |class: &Option<Box<str>>| class.as_deref().unwrap_or_default().to_owned();
    name(&claim.spec.volume_attributes_class_name) != name(&volume.spec.volume_attributes_class_name)
}

fn accessible(claim: &Claim, volume: &PersistentVolume) -> bool {
    claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
}

/// Why a volume that a claim asks for by name cannot be had; upstream's words.
#[must_use]
pub fn refusal(claim: &Claim, volume: &PersistentVolume) -> Option<String> {
    if volume.metadata.deleting() {
        return Some(format!("the volume is marked for deletion {:?}", volume.metadata.name));
    }
    let rules = [
        (volume.size().unwrap_or_default().units() < claim.size().units(), "requested PV is too small"),
        (volume.class() != claim.class(), "storageClassName does not match"),
        (attributes_differ(claim, volume), "volumeAttributesClassName does not match"),
        (modes_differ(claim, volume), "incompatible volumeMode"),
        (!accessible(claim, volume), "incompatible accessMode"),
    ];
    rules.into_iter().find(|(broken, _)| *broken).map(|(_, why)| why.to_owned())
}

/// The volume that is meant for the claim; else the smallest free one, with the fewest ways of access, that fits and
/// that `free` has nothing against. A volume that is meant but that `reachable` refuses leaves nothing.
#[must_use]
pub fn best(
    claim: &Claim,
    volumes: &[Arc<PersistentVolume>],
    free: impl Fn(&PersistentVolume) -> bool,
    reachable: impl Fn(&PersistentVolume) -> bool,
) -> Option<Arc<PersistentVolume>> {
    let fits = |volume: &&Arc<PersistentVolume>| {
        accessible(claim, volume)
            && (volume.spec.claim_ref.is_none() || volume.belongs_to(claim))
            && volume.size().unwrap_or_default() >= claim.size()
            && !modes_differ(claim, volume)
            && !attributes_differ(claim, volume)
            && !volume.metadata.deleting()
    };
    let available = |volume: &&&Arc<PersistentVolume>| {
        volume.spec.claim_ref.is_none()
            && &*volume.status.phase == "Available"
            && claim.spec.selector.as_ref().is_none_or(|s| s.matches(&volume.metadata.labels))
            && volume.class() == claim.class()
            && free(volume)
            && reachable(volume)
    };
    let fitting: Vec<_> = volumes.iter().filter(fits).collect();
    if let Some(meant) = fitting.iter().find(|volume| volume.belongs_to(claim)) {
        return reachable(meant).then(|| Arc::clone(meant));
    }
    let smallest = fitting.iter().filter(available);
    let smallest = smallest.min_by_key(|v| (v.spec.access_modes.len(), v.size().unwrap_or_default()));
    smallest.map(|volume| Arc::clone(volume))
}
