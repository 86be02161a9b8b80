//! Image collection: when the image disk is fuller than the high mark, the images unused longest
//! go until it is at the low mark. Pinned images and images in use are never touched.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use copepod_cri::{CriError, ImageService, v1 as cri};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Kubelet;
use crate::node::info;
use crate::ports::EventKind;

/// Between two rounds (upstream's ImageGCPeriod).
const ROUND: Duration = Duration::from_secs(300);

/// What is remembered of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    first: Instant,
    used: Instant,
}

/// Ids of images to remove, until `needed` bytes are freed.
fn plan_removals(
    images: &[cri::Image],
    in_use: &HashSet<String>,
    seen: &HashMap<String, Seen>,
    (min_age, needed, now): (Duration, u64, Instant),
) -> Vec<String> {
    let mut free: Vec<_> = images
        .iter()
        .filter(|i| !i.pinned && !in_use.contains(&i.id))
        .filter_map(|i| seen.get(&i.id).map(|s| (i, *s)))
        .filter(|(_, s)| now.saturating_duration_since(s.first) >= min_age)
        .collect();
    free.sort_by_key(|(_, s)| (s.used, s.first));
    let mut freed = 0;
    free.into_iter()
        .take_while(|(image, _)| {
            let go_on = freed < needed;
            freed += image.size;
            go_on
        })
        .map(|(image, _)| image.id.clone())
        .collect()
}

/// Bytes to free to come from `used` down to the low mark; none below the high mark.
fn bytes_to_free(size: u64, available: u64, high: u8, low: u8) -> Option<u64> {
    let used = size.saturating_sub(available);
    let over = size > 0 && used * 100 / size >= u64::from(high);
    over.then(|| used.saturating_sub(size / 100 * u64::from(low)))
}

/// Where the runtime keeps images.
pub(super) async fn image_mount(images: &dyn ImageService) -> Option<String> {
    let usage = images.image_fs_info().await.ok()?;
    usage.image_filesystems.first()?.fs_id.as_ref().map(|id| id.mountpoint.clone())
}

impl Kubelet {
    /// Collects until shutdown.
    pub(crate) async fn collect_images(self: Arc<Self>, shutdown: CancellationToken) {
        let mut seen = HashMap::new();
        loop {
            if let Err(error) = self.image_round(&mut seen).await {
                tracing::warn!(%error, "image collection");
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(ROUND) => {}
            }
        }
    }

    async fn images_and_uses(&self) -> Result<(Vec<cri::Image>, HashSet<String>), CriError> {
        let (images, containers) =
            futures::try_join!(self.images.list_images(None), self.runtime.list_containers(None))?;
        let in_use = containers.iter().flat_map(|c| [c.image_id.clone(), c.image_ref.clone()]).collect();
        Ok((images, in_use))
    }

    /// Removes every image that no container uses: the disk is short.
    pub(super) async fn remove_unused_images(&self) -> Result<(), CriError> {
        let (images, in_use) = self.images_and_uses().await?;
        for image in images.iter().filter(|i| !i.pinned && !in_use.contains(&i.id)) {
            self.images
                .remove_image(cri::ImageSpec { image: image.id.clone(), ..Default::default() })
                .await?;
            tracing::info!(image = image.id, "image removed, the disk is short");
        }
        Ok(())
    }

    async fn image_round(&self, seen: &mut HashMap<String, Seen>) -> Result<(), CriError> {
        let (images, in_use) = self.images_and_uses().await?;
        let now = Instant::now();
        seen.retain(|id, _| images.iter().any(|i| i.id == *id));
        for image in &images {
            let entry = seen.entry(image.id.clone()).or_insert(Seen { first: now, used: now });
            if in_use.contains(&image.id) {
                entry.used = now;
            }
        }
        let mount = image_mount(self.images.as_ref()).await;
        let mount = mount.unwrap_or_else(|| self.config.root_dir.display().to_string());
        let Ok((size, available, _, _)) = info::filesystem(Path::new(&mount)) else { return Ok(()) };
        let (high, low) = (self.config.image_gc_high_percent, self.config.image_gc_low_percent);
        let Some(needed) = bytes_to_free(size, available, high, low) else { return Ok(()) };
        let removals = plan_removals(&images, &in_use, seen, (self.config.image_min_gc_age, needed, now));
        let mut freed = 0;
        for id in &removals {
            self.images.remove_image(cri::ImageSpec { image: id.clone(), ..Default::default() }).await?;
            freed += images.iter().find(|i| i.id == *id).map_or(0, |i| i.size);
            tracing::info!(image = id, "image removed");
        }
        if freed < needed {
            let text = format!(
                "Failed to garbage collect required amount of images. Attempted to free {needed} bytes, but only found {freed} bytes eligible to free."
            );
            self.events.node_event(EventKind::Warning, "FreeDiskSpaceFailed", &text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn oldest_unused_go_first_and_pinned_stay() {
        let now = Instant::now();
        let image =
            |id: &str, pinned| cri::Image { id: id.to_owned(), size: 10, pinned, ..Default::default() };
        let images = [
            image("new", false),
            image("old", false),
            image("pinned", true),
            image("used", false),
            image("young", false),
        ];
        let at = |first: u64, used: u64| Seen {
            first: now - Duration::from_secs(first),
            used: now - Duration::from_secs(used),
        };
        let seen = HashMap::from([
            ("new".to_owned(), at(500, 100)),
            ("old".to_owned(), at(500, 400)),
            ("pinned".to_owned(), at(500, 500)),
            ("used".to_owned(), at(500, 500)),
            ("young".to_owned(), at(5, 5)),
        ]);
        let in_use = HashSet::from(["used".to_owned()]);
        let plan = |needed| plan_removals(&images, &in_use, &seen, (Duration::from_secs(120), needed, now));
        assert_eq!(plan(5), ["old"]);
        assert_eq!(plan(1000), ["old", "new"]);
        assert_eq!(bytes_to_free(1000, 500, 85, 80), None);
        assert_eq!(bytes_to_free(1000, 100, 85, 80), Some(100));
    }
}
