//! Static pods: manifests in a directory, watched by inotify.
//!
//! Upstream's rules: every file that does not start with a dot is read, in name order; a file
//! that cannot be used is skipped and named in the log, with its line, and leaves the others
//! alone. The UID is a hash of the manifest's pod, the node and the path, so it is the same after
//! every restart and changes with every edit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::StreamExt;
use inotify::{Inotify, WatchMask};
use k8s_openapi::api::core::v1::Pod;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::{Duration, sleep, timeout};

use super::{Source, SourceUpdate};
use crate::pod::defaults::{apply_defaults, tolerate_no_execute};
use crate::pod::{CONFIG_HASH, PodExt};
use crate::types::PodRef;

/// Quiet time after an event before the directory is read: editors write in several steps.
const SETTLE: Duration = Duration::from_millis(20);
/// How often a directory that does not exist yet is looked for, and a full read repeated
/// (upstream's fileCheckFrequency).
const RECHECK: Duration = Duration::from_secs(20);

/// Why one manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It cannot be read.
    #[error("{}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// It is no valid YAML or JSON, or no Pod.
    #[error("{}:{line}: {message}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line of the problem, from 1.
        line: u64,
        /// What is wrong.
        message: String,
    },
}

/// Reads one manifest into a pod of node `node`.
///
/// # Errors
/// When the file cannot be read, parsed, or is no usable Pod.
pub fn read_manifest(path: &Path, node: &str) -> Result<Pod, ManifestError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ManifestError::Read { path: path.to_owned(), source })?;
    parse_manifest(path, &text, node)
}

fn parse_manifest(path: &Path, text: &str, node: &str) -> Result<Pod, ManifestError> {
    let at = |line, message| ManifestError::Parse { path: path.to_owned(), line, message };
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let value: serde_json::Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|e| at(line_of(&e), e.without_snippet().to_string()))?;
    for (key, want) in [("kind", "Pod"), ("apiVersion", "v1")] {
        let found = value.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
        if found != want {
            return Err(at(
                find_line(text, &format!("{key}:")),
                format!("{key} is {found:?}, expected {want:?}"),
            ));
        }
    }
    let mut value = value;
    stringify_quantities(&mut value);
    let digest = Sha256::digest(format!("{value}host:{node}file:{}", path.display()));
    let mut pod: Pod = serde_json::from_value(value).map_err(|e| {
        let message = e.to_string();
        at(find_line(text, &quoted_word(&message)), message)
    })?;
    check(&pod).map_err(|(word, message)| at(find_line(text, &word), message))?;
    let hash = hex::encode(&digest.as_slice()[..16]);
    place(&mut pod, node, &hash);
    apply_defaults(&mut pod);
    Ok(pod)
}

fn line_of(error: &serde_saphyr::Error) -> u64 {
    error.location().map_or(1, |l| l.line())
}

/// The first line that contains `word`; 1 when none does.
fn find_line(text: &str, word: &str) -> u64 {
    if word.is_empty() {
        return 1;
    }
    let index = text.lines().position(|line| line.contains(word)).unwrap_or(0);
    u64::try_from(index).unwrap_or(0) + 1
}

/// The word a serde message quotes, to find its line.
fn quoted_word(message: &str) -> String {
    message.split(['`', '"']).nth(1).unwrap_or_default().to_owned()
}

/// Numbers where a quantity is expected become texts, as Go's decoder takes them.
fn stringify_quantities(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter_mut() {
                if matches!(key.as_str(), "requests" | "limits" | "overhead") {
                    for quantity in child.as_object_mut().into_iter().flat_map(|m| m.values_mut()) {
                        if quantity.is_number() {
                            *quantity = Value::String(quantity.to_string());
                        }
                    }
                } else {
                    stringify_quantities(child);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(stringify_quantities),
        _ => {}
    }
}

/// What the kubelet itself must insist on; the word finds the line.
fn check(pod: &Pod) -> Result<(), (String, String)> {
    let name_ok = |name: &str| {
        !name.is_empty()
            && name.len() <= 253
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
    };
    if !name_ok(pod.name()) {
        return Err(("name:".to_owned(), format!("metadata.name {:?} is no valid pod name", pod.name())));
    }
    let spec = pod.spec();
    if spec.containers.is_empty() {
        return Err(("containers:".to_owned(), "spec.containers: Required value".to_owned()));
    }
    let mut names = std::collections::BTreeSet::new();
    for container in spec.containers.iter().chain(pod.init_containers()) {
        if !name_ok(&container.name) || container.name.contains('.') {
            return Err((
                container.name.clone(),
                format!("container name {:?} is not valid", container.name),
            ));
        }
        if !names.insert(container.name.as_str()) {
            return Err((
                container.name.clone(),
                format!("container name {:?} is used twice", container.name),
            ));
        }
        if container.image.as_deref().unwrap_or_default().is_empty() {
            return Err((container.name.clone(), format!("container {:?} has no image", container.name)));
        }
    }
    let volumes: Vec<_> = spec.volumes.iter().flatten().map(|v| v.name.as_str()).collect();
    for container in spec.containers.iter().chain(pod.init_containers()) {
        for mount in container.volume_mounts.iter().flatten() {
            if !volumes.contains(&mount.name.as_str()) {
                let message = format!(
                    "container {:?} mounts volume {:?}, which is not there",
                    container.name, mount.name
                );
                return Err((mount.name.clone(), message));
            }
        }
    }
    Ok(())
}

/// Gives the pod its identity on this node.
fn place(pod: &mut Pod, node: &str, hash: &str) {
    let meta = &mut pod.metadata;
    meta.name = Some(format!("{}-{node}", meta.name.as_deref().unwrap_or_default()));
    meta.namespace.get_or_insert_with(|| "default".to_owned());
    let uid = meta.uid.get_or_insert_with(|| hash.to_owned()).clone();
    meta.annotations.get_or_insert_with(Default::default).insert(CONFIG_HASH.to_owned(), uid);
    if let Some(spec) = pod.spec.as_mut() {
        spec.node_name = Some(node.to_owned());
        tolerate_no_execute(spec);
    }
    pod.status.get_or_insert_with(Default::default).phase = Some("Pending".to_owned());
}

/// All usable pods of `dir`, and every file that is not. A missing directory has no pods.
#[must_use]
pub fn read_dir(dir: &Path, node: &str) -> (Vec<PodRef>, Vec<ManifestError>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return (Vec::new(), Vec::new()) };
    let mut paths: Vec<_> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.file_name().is_some_and(|n| !n.as_encoded_bytes().starts_with(b".")) && p.is_file())
        .collect();
    paths.sort();
    let mut pods: Vec<PodRef> = Vec::new();
    let mut errors = Vec::new();
    for path in paths {
        match read_manifest(&path, node) {
            Ok(pod) if pods.iter().any(|p| p.full_name() == pod.full_name()) => {
                errors.push(ManifestError::Parse {
                    path,
                    line: 1,
                    message: format!("pod {} is defined by another manifest already", pod.full_name()),
                })
            }
            Ok(pod) => pods.push(Arc::new(pod)),
            // Gone between listing and reading: the next event tells.
            Err(ManifestError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => errors.push(error),
        }
    }
    (pods, errors)
}

/// Watches `dir` and sends its full set on every change; ends when the receiver is gone.
pub async fn run(dir: PathBuf, node: String, updates: mpsc::Sender<SourceUpdate>) {
    let mut reported = Vec::new();
    loop {
        let watch = watch(&dir);
        if let Err(error) = &watch {
            tracing::debug!(dir = %dir.display(), %error, "manifest directory cannot be watched; read now and again");
        }
        let mut events = watch.ok();
        loop {
            if !send(&dir, &node, &updates, &mut reported).await {
                return;
            }
            let Some(stream) = events.as_mut() else { break };
            match timeout(RECHECK, stream.next()).await {
                Ok(Some(Ok(event))) if !event.mask.contains(inotify::EventMask::IGNORED) => {
                    sleep(SETTLE).await
                }
                Ok(_) => break,
                Err(_) => {}
            }
        }
        if events.is_none() {
            sleep(Duration::from_secs(1)).await;
        }
    }
}

fn watch(dir: &Path) -> std::io::Result<inotify::EventStream<Vec<u8>>> {
    let inotify = Inotify::init()?;
    let mask = WatchMask::CREATE
        | WatchMask::DELETE
        | WatchMask::MOVED_FROM
        | WatchMask::MOVED_TO
        | WatchMask::CLOSE_WRITE
        | WatchMask::DELETE_SELF
        | WatchMask::MOVE_SELF
        | WatchMask::ONLYDIR;
    inotify.watches().add(dir, mask)?;
    inotify.into_event_stream(vec![0; 4096])
}

/// Reads and sends; reports each error once until it changes. False when nobody listens.
async fn send(
    dir: &Path,
    node: &str,
    updates: &mpsc::Sender<SourceUpdate>,
    reported: &mut Vec<String>,
) -> bool {
    let (pods, errors) = read_dir(dir, node);
    let texts: Vec<_> = errors.iter().map(chain).collect();
    for text in texts.iter().filter(|t| !reported.contains(t)) {
        tracing::error!(manifest = %text, "static pod manifest is skipped");
    }
    *reported = texts;
    updates.send(SourceUpdate { source: Source::File, pods }).await.is_ok()
}

fn chain(error: &ManifestError) -> String {
    use std::error::Error;
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

#[cfg(test)]
mod tests;
