//! The environment of containers, in upstream's order: `envFrom`, `env` with `$(VAR)` expanded, then what the
//! namespace's Services add.

mod env_file;
mod service_links;

use std::path::PathBuf;
use std::sync::Arc;

use copepod_client::{Client, Informer, InformerConfig, resources};
use copepod_volume::{NodeFacts, ObjectSource, VolumeError, downward};
use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVarSource, FileKeySelector, Pod};
use tokio_util::sync::CancellationToken;

pub use self::service_links::ServiceView;

use crate::ports::{BoxFuture, PodAddresses, PodEnvironment, SetupError};

/// Resolves environments from API objects and Services.
pub struct Environment {
    objects: Arc<dyn ObjectSource>,
    services: Option<Informer<ServiceView>>,
    node: NodeFacts,
    /// The directory of pods' directories.
    pods: PathBuf,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("services", &self.services).finish_non_exhaustive()
    }
}

type Variables = Vec<(String, String)>;

impl Environment {
    /// An environment source; with a client it follows the cluster's Services.
    #[must_use]
    pub fn new(
        objects: Arc<dyn ObjectSource>,
        client: Option<&Client>,
        (node, pods): (NodeFacts, PathBuf),
        shutdown: &CancellationToken,
    ) -> Self {
        let services = client.map(|client| {
            let informer = Informer::new(InformerConfig::all(resources::SERVICES));
            informer.start(client, shutdown);
            informer
        });
        Self { objects, services, node, pods }
    }

    async fn variables(
        &self,
        pod: &Pod,
        container: &Container,
        addresses: &PodAddresses,
    ) -> Result<Variables, SetupError> {
        let mut env = Variables::new();
        for source in container.env_from.iter().flatten() {
            self.variables_of(pod, source, &mut env).await?;
        }
        let links = self.service_links(pod)?;
        for variable in container.env.iter().flatten() {
            let value = match (&variable.value, &variable.value_from) {
                (Some(text), _) if !text.is_empty() => Some(downward::expand(text, &known(&links, &env))),
                (_, Some(from)) => self.value_of(pod, container, from, addresses).await?,
                _ => Some(String::new()),
            };
            if let Some(value) = value {
                set(&mut env, &variable.name, value);
            }
        }
        for (name, value) in links {
            if !env.iter().any(|(set, _)| *set == name) {
                env.push((name, value));
            }
        }
        Ok(env)
    }

    async fn variables_of(
        &self,
        pod: &Pod,
        source: &EnvFromSource,
        env: &mut Variables,
    ) -> Result<(), SetupError> {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let namespace = namespace(pod);
        if let Some(wanted) = &source.config_map_ref {
            let found = self.objects.config_map(namespace, &wanted.name).await;
            for (key, value) in optional(found, wanted.optional)?.and_then(|m| m.data).into_iter().flatten() {
                set(env, &format!("{prefix}{key}"), value);
            }
        }
        if let Some(wanted) = &source.secret_ref {
            let found = self.objects.secret(namespace, &wanted.name).await;
            for (key, value) in optional(found, wanted.optional)?.and_then(|s| s.data).into_iter().flatten() {
                set(env, &format!("{prefix}{key}"), text(value.0));
            }
        }
        Ok(())
    }

    /// The value behind `valueFrom`; `None` leaves the variable unset.
    async fn value_of(
        &self,
        pod: &Pod,
        container: &Container,
        from: &EnvVarSource,
        addresses: &PodAddresses,
    ) -> Result<Option<String>, SetupError> {
        let namespace = namespace(pod);
        if let Some(field) = &from.field_ref {
            let mut node = self.node.clone();
            node.host_ips.clone_from(&addresses.host_ips);
            return downward::field(pod, &field.field_path, &addresses.pod_ips, &node)
                .map(Some)
                .map_err(config);
        }
        if let Some(selector) = &from.resource_field_ref {
            let other = selector.container_name.as_deref().filter(|n| !n.is_empty() && *n != container.name);
            let all =
                pod.spec.iter().flat_map(|s| s.containers.iter().chain(s.init_containers.iter().flatten()));
            let target = other.map_or(Some(container), |name| all.into_iter().find(|c| c.name == name));
            let target = target.ok_or_else(|| {
                SetupError::Config(format!("container {} not found", other.unwrap_or_default()))
            })?;
            return downward::resource(target, selector, &self.node).map(Some).map_err(config);
        }
        if let Some(wanted) = &from.config_map_key_ref {
            let map = optional(self.objects.config_map(namespace, &wanted.name).await, wanted.optional)?;
            let absent = map.is_none();
            let value = map.and_then(|m| m.data).and_then(|mut d| d.remove(&wanted.key));
            let missing =
                format!("couldn't find key {} in ConfigMap {namespace}/{}", wanted.key, wanted.name);
            return required(value, absent || wanted.optional == Some(true), missing);
        }
        if let Some(wanted) = &from.secret_key_ref {
            let secret = optional(self.objects.secret(namespace, &wanted.name).await, wanted.optional)?;
            let absent = secret.is_none();
            let value =
                secret.and_then(|s| s.data).and_then(|mut d| d.remove(&wanted.key)).map(|b| text(b.0));
            let missing = format!("couldn't find key {} in Secret {namespace}/{}", wanted.key, wanted.name);
            return required(value, absent || wanted.optional == Some(true), missing);
        }
        if let Some(wanted) = &from.file_key_ref {
            return self.value_in_file(pod, wanted);
        }
        Err(SetupError::Config(
            "environment variables from this source are not supported by this node".to_owned(),
        ))
    }

    /// The value in a file of one of the pod's own volumes.
    fn value_in_file(&self, pod: &Pod, wanted: &FileKeySelector) -> Result<Option<String>, SetupError> {
        let config = |text: String| SetupError::Config(text);
        let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
        let known = volumes.into_iter().any(|v| v.name == wanted.volume_name && v.empty_dir.is_some());
        if !known {
            let name = &wanted.volume_name;
            return Err(config(format!("cannot find the volume {name:?} referenced by FileKeyRef")));
        }
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let root = self.pods.join(uid).join("volumes/kubernetes.io~empty-dir").join(&wanted.volume_name);
        let parsed = env_file::read(&root, &wanted.path)
            .map_err(|e| e.to_string())
            .and_then(|text| env_file::value(&text, &wanted.key));
        let value = parsed.map_err(|why| {
            tracing::warn!(uid, why, "environment file");
            config("couldn't parse env file".to_owned())
        })?;
        let path = root.join(&wanted.path);
        let missing = format!("environment variable key {:?} not found in file {path:?}", wanted.key);
        required(value, wanted.optional == Some(true), missing)
    }

    fn service_links(&self, pod: &Pod) -> Result<Variables, SetupError> {
        let Some(services) = &self.services else { return Ok(Variables::new()) };
        if !services.has_synced() {
            // A static pod must not wait for the API server that it may itself be.
            if pod.metadata.annotations.as_ref().is_some_and(|a| {
                a.contains_key("kubernetes.io/config.source")
                    && a.get("kubernetes.io/config.source").map(String::as_str) != Some("api")
            }) {
                return Ok(Variables::new());
            }
            return Err(SetupError::Retry(
                "services have not yet been read at least once, cannot construct envvars".to_owned(),
            ));
        }
        let all = pod.spec.as_ref().and_then(|s| s.enable_service_links) != Some(false);
        let mut relevant: Vec<_> = services.get("default", "kubernetes").into_iter().collect();
        if all {
            let mine = services.list_namespace(namespace(pod));
            relevant.retain(|master| !mine.iter().any(|s| s.name() == master.name()));
            relevant.extend(mine);
        }
        Ok(service_links::variables(relevant.iter().map(AsRef::as_ref)))
    }
}

impl PodEnvironment for Environment {
    fn resolve<'a>(
        &'a self,
        pod: &'a Pod,
        container: &'a Container,
        addresses: &'a PodAddresses,
    ) -> BoxFuture<'a, Result<Variables, SetupError>> {
        Box::pin(self.variables(pod, container, addresses))
    }
}

/// What `$(VAR)` may name: the Services' variables and, over them, those set so far.
fn known(links: &Variables, env: &Variables) -> Variables {
    links.iter().chain(env).cloned().collect()
}

fn set(env: &mut Variables, name: &str, value: String) {
    match env.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value,
        None => env.push((name.to_owned(), value)),
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or("default")
}

fn config(error: VolumeError) -> SetupError {
    match error {
        VolumeError::Api(why) => SetupError::Retry(why),
        other => SetupError::Config(other.to_string()),
    }
}

fn optional<T>(found: Result<T, VolumeError>, optional: Option<bool>) -> Result<Option<T>, SetupError> {
    match found {
        Ok(object) => Ok(Some(object)),
        Err(VolumeError::NotFound(..)) if optional == Some(true) => Ok(None),
        Err(error) => Err(config(error)),
    }
}

fn required(value: Option<String>, optional: bool, missing: String) -> Result<Option<String>, SetupError> {
    match value {
        None if !optional => Err(SetupError::Config(missing)),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests;
