//! What an image is made of, and the documents that say so.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::write::{Sealed, descriptor};
use crate::{ImageError, media};

/// A file, directory or link of an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
    /// The content of a file of the build machine.
    File {
        /// Where it is now.
        from: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A small file given literally.
    Text {
        /// Its content.
        text: String,
        /// Its permissions.
        mode: u32,
    },
    /// A directory with these permissions; parents of files need not be named.
    Directory {
        /// Its permissions.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// What it points to.
        target: String,
    },
}

/// An image: its own layer, on top of others that exist already.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// The full name with its tag, `registry.k8s.io/pause:3.10.2`.
    pub name: String,
    /// In OCI's words: `amd64`, `arm64`.
    pub architecture: String,
    /// Files that are uncompressed layers, the lowest first; several images share them.
    pub below: Vec<PathBuf>,
    /// Absolute paths and what is there, in any order. An image that adds nothing has no layer of its own.
    pub entries: Vec<(String, Entry)>,
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// Default arguments.
    pub command: Vec<String>,
    /// `KEY=value`.
    pub environment: Vec<String>,
    /// `uid` or `uid:gid`; root where empty.
    pub user: String,
}

impl Recipe {
    /// Writes the image as an archive to `to`, replacing what is there in one step.
    ///
    /// # Errors
    /// A file of the recipe cannot be read, or the archive cannot be written.
    pub fn build(&self, to: &Path) -> Result<(), ImageError> {
        crate::write_archive(std::slice::from_ref(self), to)
    }

    pub(crate) fn config(&self, layers: &[Sealed]) -> Value {
        let mut run = serde_json::Map::new();
        let lists = [("Entrypoint", &self.entrypoint), ("Cmd", &self.command), ("Env", &self.environment)];
        for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            run.insert(key.to_string(), json!(list));
        }
        if !self.user.is_empty() {
            run.insert("User".to_string(), json!(self.user));
        }
        json!({
            "architecture": self.architecture,
            "os": "linux",
            "config": run,
            "rootfs": {"type": "layers", "diff_ids": layers.iter().map(Sealed::full).collect::<Vec<_>>()},
        })
    }

    /// The image's line in the archive's index.
    pub(crate) fn entry(&self, manifest: &Sealed) -> Value {
        let mut descriptor = descriptor(media::MANIFEST, manifest);
        descriptor["annotations"] = json!({
            "io.containerd.image.name": self.name,
            "org.opencontainers.image.ref.name": self.name.rsplit(':').next().unwrap_or_default(),
        });
        descriptor["platform"] = json!({"architecture": self.architecture, "os": "linux"});
        descriptor
    }

    /// The same in docker's older form.
    pub(crate) fn docker(&self, config: &Sealed, layers: &[Sealed]) -> Value {
        json!({
            "Config": config.blob(),
            "RepoTags": [self.name],
            "Layers": layers.iter().map(Sealed::blob).collect::<Vec<_>>(),
        })
    }
}
