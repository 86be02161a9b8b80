//! Making sure that a container's image is there: policies, credentials, back-off, one pull at a
//! time (or as many as configured).

pub mod auth;
pub mod reference;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use copepod_cri::{CriError, ImageService, v1 as cri};
use k8s_openapi::api::core::v1::{Container, Pod};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::security::ImageUser;
use crate::pod::PodExt;
use crate::pod::defaults::pull_policy_for;
use crate::ports::{EventKind, EventSink, PullSecrets};

/// An image that is there.
#[derive(Debug, Clone)]
pub struct ReadyImage {
    /// Reference for CreateContainer.
    pub image_ref: String,
    /// The user it names.
    pub user: ImageUser,
}

/// Why an image is not there: the waiting reason and message of the container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct ImageError {
    /// `ErrImagePull`, `ImagePullBackOff`, `ErrImageNeverPull`, `InvalidImageName`, `ImageInspectError`.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// When trying again makes sense.
    pub retry: Option<Duration>,
}

impl ImageError {
    fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message, retry: None }
    }
}

/// Pulls images.
pub struct ImageManager {
    images: Arc<dyn ImageService>,
    secrets: Arc<dyn PullSecrets>,
    events: Arc<dyn EventSink>,
    backoff: Mutex<Backoff>,
    last_error: Mutex<HashMap<String, String>>,
    pulls: Semaphore,
}

impl std::fmt::Debug for ImageManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImageManager").field("pulls", &self.pulls).finish_non_exhaustive()
    }
}

impl ImageManager {
    /// A manager that runs at most `parallel` pulls at once.
    #[must_use]
    pub fn new(
        images: Arc<dyn ImageService>,
        secrets: Arc<dyn PullSecrets>,
        events: Arc<dyn EventSink>,
        parallel: usize,
    ) -> Self {
        Self {
            images,
            secrets,
            events,
            backoff: Mutex::new(Backoff::new(Duration::from_secs(10), Duration::from_secs(300))),
            last_error: Mutex::default(),
            pulls: Semaphore::new(parallel),
        }
    }

    /// Makes `container`'s image present by its pull policy.
    ///
    /// # Errors
    /// The waiting reason and message the container shows until the next try.
    pub async fn ensure(
        &self,
        pod: &Pod,
        container: &Container,
        sandbox: &cri::PodSandboxConfig,
    ) -> Result<ReadyImage, ImageError> {
        let requested = container.image.clone().unwrap_or_default();
        let path = super::manager::field_path(pod, &container.name);
        self.ensure_image(pod, (&requested, container.image_pull_policy.as_deref()), path, sandbox).await
    }

    /// Makes the images of the pod's image volumes present; what became of each, by the volume's name.
    pub async fn ensure_volumes(
        &self,
        pod: &Pod,
        sandbox: &cri::PodSandboxConfig,
    ) -> HashMap<String, Result<ReadyImage, ImageError>> {
        let mut all = HashMap::new();
        for volume in pod.spec().volumes.iter().flatten() {
            let Some(image) = &volume.image else { continue };
            let requested = image.reference.clone().unwrap_or_default();
            let wanted = (requested.as_str(), image.pull_policy.as_deref());
            all.insert(volume.name.clone(), self.ensure_image(pod, wanted, None, sandbox).await);
        }
        all
    }

    /// Makes an image present by its pull policy; events are about the part of the pod that `path` names.
    async fn ensure_image(
        &self,
        pod: &Pod,
        (requested, policy): (&str, Option<&str>),
        path: Option<String>,
        sandbox: &cri::PodSandboxConfig,
    ) -> Result<ReadyImage, ImageError> {
        let event = |kind, reason, text: &str| self.events.pod_event(pod, path.clone(), kind, reason, text);
        let image = reference::with_default_tag(requested).map_err(|why| {
            let message = format!("Failed to apply default image tag {requested:?}: {why}");
            event(EventKind::Warning, "InspectFailed", &message);
            ImageError::new("InvalidImageName", message)
        })?;
        let spec = cri::ImageSpec {
            image,
            annotations: pod.metadata.annotations.clone().into_iter().flatten().collect(),
            user_specified_image: requested.to_owned(),
            ..Default::default()
        };
        let policy = policy.unwrap_or_else(|| pull_policy_for(requested));
        if policy != "Always" {
            match self.inspect(&spec).await {
                Ok(Some(ready)) => {
                    let text = format!(
                        "Container image {requested:?} already present on machine and can be accessed by the pod"
                    );
                    event(EventKind::Normal, "Pulled", &text);
                    return Ok(ready);
                }
                Ok(None) if policy == "Never" => {
                    let message =
                        format!("Container image {requested:?} is not present with pull policy of Never");
                    event(EventKind::Warning, "ErrImageNeverPull", &message);
                    return Err(ImageError::new("ErrImageNeverPull", message));
                }
                Ok(None) => {}
                Err(error) => {
                    let message = format!("Failed to inspect image {requested:?}: {error}");
                    event(EventKind::Warning, "InspectFailed", &message);
                    return Err(ImageError::new("ImageInspectError", message));
                }
            }
        }
        self.pull(pod, requested, spec, sandbox, &event).await
    }

    async fn inspect(&self, spec: &cri::ImageSpec) -> Result<Option<ReadyImage>, CriError> {
        let status = self.images.image_status(spec.clone(), false).await?;
        Ok(status.image.map(|image| ReadyImage { image_ref: image.id.clone(), user: user_of(image) }))
    }

    async fn pull(
        &self,
        pod: &Pod,
        requested: &str,
        spec: cri::ImageSpec,
        sandbox: &cri::PodSandboxConfig,
        event: &(dyn Fn(EventKind, &'static str, &str) + Sync),
    ) -> Result<ReadyImage, ImageError> {
        let key = format!("{}_{requested}", pod.uid());
        let now = Instant::now();
        let since_last = self.backoff.lock().remaining_of_last(&key, now);
        if let Some(left) = since_last {
            let mut message = format!("Back-off pulling image {requested:?}");
            event(EventKind::Normal, "BackOff", &message);
            if let Some(previous) = self.last_error.lock().get(&key) {
                message = format!("{message}: {previous}");
            }
            return Err(ImageError { reason: "ImagePullBackOff", message, retry: Some(left) });
        }
        self.last_error.lock().remove(&key);
        event(EventKind::Normal, "Pulling", &format!("Pulling image {requested:?}"));
        let started = Instant::now();
        let pulled = self.pull_with_credentials(pod, &spec, sandbox, event).await;
        match pulled {
            Ok((image_ref, took)) => {
                let status = self
                    .images
                    .image_status(cri::ImageSpec { image: image_ref.clone(), ..spec.clone() }, false);
                let image = status.await.ok().and_then(|s| s.image);
                let size = image.as_ref().map_or(0, |i| i.size);
                let text = format!(
                    "Successfully pulled image {requested:?} in {} ({} including waiting). Image size: {size} bytes.",
                    go_duration(took),
                    go_duration(started.elapsed())
                );
                event(EventKind::Normal, "Pulled", &text);
                let user = image.map(user_of);
                Ok(ReadyImage { image_ref, user: user.unwrap_or_default() })
            }
            Err(error) => {
                event(EventKind::Warning, "Failed", &format!("Failed to pull image {requested:?}: {error}"));
                let mut backoff = self.backoff.lock();
                let at = Instant::now();
                backoff.next(&key, at, at);
                let retry = backoff.delay(&key);
                self.last_error.lock().insert(key, format!("ErrImagePull: {error}"));
                Err(ImageError { reason: "ErrImagePull", message: error.to_string(), retry: Some(retry) })
            }
        }
    }

    /// Tries each credential that fits, then none; returns the reference and the pull's own time.
    async fn pull_with_credentials(
        &self,
        pod: &Pod,
        spec: &cri::ImageSpec,
        sandbox: &cri::PodSandboxConfig,
        event: &(dyn Fn(EventKind, &'static str, &str) + Sync),
    ) -> Result<(String, Duration), CriError> {
        let (configs, missing) = self.secrets.resolve(pod).await;
        if !missing.is_empty() {
            let text = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                missing.join(", ")
            );
            event(EventKind::Warning, "FailedToRetrieveImagePullSecret", &text);
        }
        let mut credentials: Vec<_> = auth::for_image(&configs, &spec.image).into_iter().map(Some).collect();
        if credentials.is_empty() {
            credentials.push(None);
        }
        // Closed never happens: the semaphore lives as long as the manager.
        let _permit = self.pulls.acquire().await;
        let started = Instant::now();
        let mut last = None;
        for auth in credentials {
            let request = cri::PullImageRequest {
                image: Some(spec.clone()),
                auth,
                sandbox_config: Some(sandbox.clone()),
            };
            match self.images.pull_image(request).await {
                Ok(image_ref) => return Ok((image_ref, started.elapsed())),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("at least one try was made"))
    }
}

/// The user an image names; root when it names none.
fn user_of(image: cri::Image) -> ImageUser {
    let uid = image.uid.as_ref().map(|u| u.value);
    let nobody = image.username.is_empty().then_some(0);
    ImageUser { uid: uid.or(nobody), name: image.username }
}

/// A duration as Go prints it, cut to milliseconds.
fn go_duration(duration: Duration) -> String {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 1_000_000);
    copepod_api::duration::format(millis.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_as_in_go() {
        for (millis, text) in [
            (0, "0s"),
            (84, "84ms"),
            (1500, "1.5s"),
            (2000, "2s"),
            (61_005, "1m1.005s"),
            (3_600_000, "1h0m0s"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(millis)), text);
        }
    }
}
