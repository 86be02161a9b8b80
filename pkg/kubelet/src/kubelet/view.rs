//! What the server on :10250 sees.

use std::path::PathBuf;
use std::sync::Arc;

use copepod_cri::{ImageService, RuntimeService};
use k8s_openapi::api::core::v1::Pod;

use super::Kubelet;
use crate::pod::PodExt;
use crate::ports::NodeView;
use crate::types::{PodRef, RuntimePod};

impl Kubelet {
    fn with_status(&self, pod: &PodRef) -> PodRef {
        match self.statuses.get(pod.uid()) {
            Some(status) => {
                let mut pod = Pod::clone(pod);
                pod.status = Some(status);
                Arc::new(pod)
            }
            None => pod.clone(),
        }
    }
}

impl NodeView for Kubelet {
    fn pods(&self) -> Vec<PodRef> {
        let views = self.workers.get().map(|w| w.views()).unwrap_or_default();
        views.iter().map(|v| self.with_status(&v.pod)).collect()
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<PodRef> {
        let views = self.workers.get()?.views();
        let found = views.iter().filter(|v| v.pod.namespace() == namespace && v.pod.name() == name);
        found.min_by_key(|v| v.phase).map(|v| self.with_status(&v.pod))
    }

    fn runtime_pod(&self, uid: &str) -> Option<Arc<RuntimePod>> {
        self.cache.read().get(uid).cloned()
    }

    fn log_path(&self, pod: &Pod, container: &str, previous: bool) -> Option<PathBuf> {
        let state = self.runtime_pod(pod.uid())?;
        let mut runs = state.containers.iter().filter(|c| c.name == container && !c.log_path.is_empty());
        let found = if previous { runs.nth(1) } else { runs.next() };
        found.map(|c| PathBuf::from(&c.log_path))
    }

    fn runtime(&self) -> Arc<dyn RuntimeService> {
        self.runtime.clone()
    }

    fn images(&self) -> Arc<dyn ImageService> {
        self.images.clone()
    }

    fn healthy(&self) -> Result<(), String> {
        self.node.loop_problem()
    }
}

impl Kubelet {
    /// Takes over the mirrors the API has: new ones get their status, those of pods that are gone
    /// are deleted.
    pub(crate) fn observe_mirrors(self: &Arc<Self>, pods: &[PodRef]) {
        let Some(mirrors) = self.mirrors.clone() else { return };
        let views = self.workers.get().map(|w| w.views()).unwrap_or_default();
        let lost: Vec<_> = mirrors.names();
        for name in mirrors.observe(pods) {
            if let Some(view) = views.iter().find(|v| v.pod.full_name() == name) {
                self.statuses.rewrite(view.pod.uid());
            }
        }
        let now = mirrors.names();
        let gone = lost.into_iter().filter(|n| !now.contains(n));
        for name in gone.chain(mirrors.doomed()) {
            // Somebody deleted a mirror: the next sync makes it anew.
            if let (Some(view), Some(workers)) =
                (views.iter().find(|v| v.pod.full_name() == name), self.workers.get())
            {
                workers.wake(view.pod.uid());
            }
        }
    }
}
