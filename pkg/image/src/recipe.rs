//! What an image is made of, and the documents that say so.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::layer::{self, append};
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

/// An image of one layer.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// The full name with its tag, `registry.k8s.io/pause:3.10.2`.
    pub name: String,
    /// In OCI's words: `amd64`, `arm64`.
    pub architecture: String,
    /// Absolute paths and what is there, in any order.
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

/// An image document or layer in the archive.
struct Sealed {
    digest: String,
    size: u64,
}

impl Recipe {
    /// Writes the image as an archive to `to`, replacing what is there in one step.
    ///
    /// # Errors
    /// A file of the recipe cannot be read, or the archive cannot be written.
    pub fn build(&self, to: &Path) -> Result<(), ImageError> {
        let write = |source| ImageError::file("write", to, source);
        let unfinished = to.with_extension("unfinished");
        let layer_file = to.with_extension("layer");
        let layer = seal(&layer_file, |file| layer::write(file, &self.entries))?;
        let config = encode("config", &self.config(&layer))?;
        let config_seal = seal_bytes(&config);
        let manifest = encode("manifest", &manifest(&config_seal, &layer))?;
        let manifest_seal = seal_bytes(&manifest);
        let mut tar = tar::Builder::new(File::create(&unfinished).map_err(write)?);
        let blob = |seal: &Sealed| format!("blobs/sha256/{}", seal.digest);
        let documents = [
            ("oci-layout".to_string(), encode("layout", &json!({"imageLayoutVersion": "1.0.0"}))?),
            ("index.json".to_string(), encode("index", &self.index(&manifest_seal))?),
            ("manifest.json".to_string(), encode("docker manifest", &self.docker(&config_seal, &layer))?),
            (blob(&manifest_seal), manifest),
            (blob(&config_seal), config),
        ];
        for (path, bytes) in &documents {
            append(&mut tar, path, &mut bytes.as_slice(), bytes.len() as u64).map_err(write)?;
        }
        let mut layer_bytes =
            File::open(&layer_file).map_err(|e| ImageError::file("read", &layer_file, e))?;
        append(&mut tar, &blob(&layer), &mut layer_bytes, layer.size).map_err(write)?;
        tar.into_inner().and_then(|file| file.sync_all()).map_err(write)?;
        std::fs::remove_file(&layer_file).map_err(|e| ImageError::file("remove", &layer_file, e))?;
        std::fs::rename(&unfinished, to).map_err(write)
    }

    fn config(&self, layer: &Sealed) -> serde_json::Value {
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
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", layer.digest)]},
        })
    }

    fn index(&self, manifest: &Sealed) -> serde_json::Value {
        let mut descriptor = descriptor(media::MANIFEST, manifest);
        descriptor["annotations"] = json!({
            "io.containerd.image.name": self.name,
            "org.opencontainers.image.ref.name": self.name.rsplit(':').next().unwrap_or_default(),
        });
        descriptor["platform"] = json!({"architecture": self.architecture, "os": "linux"});
        json!({"schemaVersion": 2, "mediaType": media::INDEX, "manifests": [descriptor]})
    }

    fn docker(&self, config: &Sealed, layer: &Sealed) -> serde_json::Value {
        json!([{
            "Config": format!("blobs/sha256/{}", config.digest),
            "RepoTags": [self.name],
            "Layers": [format!("blobs/sha256/{}", layer.digest)],
        }])
    }
}

fn manifest(config: &Sealed, layer: &Sealed) -> serde_json::Value {
    json!({
        "schemaVersion": 2,
        "mediaType": media::MANIFEST,
        "config": descriptor(media::CONFIG, config),
        "layers": [descriptor(media::LAYER, layer)],
    })
}

fn descriptor(media_type: &str, seal: &Sealed) -> serde_json::Value {
    json!({"mediaType": media_type, "digest": format!("sha256:{}", seal.digest), "size": seal.size})
}

fn encode(document: &'static str, value: &impl Serialize) -> Result<Vec<u8>, ImageError> {
    serde_json::to_vec(value).map_err(|source| ImageError::Encode { document, source })
}

fn seal_bytes(bytes: &[u8]) -> Sealed {
    Sealed { digest: hex::encode(Sha256::digest(bytes)), size: bytes.len() as u64 }
}

/// Writes a file, then digests it: layers may be larger than memory.
fn seal(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), ImageError>,
) -> Result<Sealed, ImageError> {
    let mut file =
        std::io::BufWriter::new(File::create(path).map_err(|e| ImageError::file("create", path, e))?);
    write(&mut file)?;
    file.flush().map_err(|e| ImageError::file("write", path, e))?;
    let mut reader = File::open(path).map_err(|e| ImageError::file("read", path, e))?;
    let mut digest = Sha256::new();
    let mut size = 0;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = reader.read(&mut buffer).map_err(|e| ImageError::file("read", path, e))?;
        if count == 0 {
            return Ok(Sealed { digest: hex::encode(digest.finalize()), size });
        }
        digest.update(buffer.get(..count).unwrap_or_default());
        size += count as u64;
    }
}
