//! Writing an archive: the documents of its images and their layers, each once however many images share it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::layer::{self, append};
use crate::{Entry, ImageError, Recipe, media};

/// An image document or layer in the archive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sealed {
    digest: String,
    size: u64,
}

impl Sealed {
    /// The digest as documents name it.
    pub(crate) fn full(&self) -> String {
        format!("sha256:{}", self.digest)
    }

    /// Where it is in the archive.
    pub(crate) fn blob(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }
}

/// What is known of the archive before it is written.
#[derive(Default)]
struct Contents {
    /// Small documents by their place.
    documents: BTreeMap<String, Vec<u8>>,
    /// Layers and the files they are in now.
    layers: BTreeMap<Sealed, PathBuf>,
    index: Vec<Value>,
    docker: Vec<Value>,
}

/// Writes the images `recipes` as one archive to `to`, replacing what is there in one step.
///
/// # Errors
/// A file of a recipe cannot be read, or the archive cannot be written.
pub fn write_archive(recipes: &[Recipe], to: &Path) -> Result<(), ImageError> {
    let mut contents = Contents::default();
    let mut own = Vec::new();
    let result = recipes
        .iter()
        .enumerate()
        .try_for_each(|(number, recipe)| {
            let file = to.with_extension(format!("layer{number}"));
            own.push(file.clone());
            contents.add(recipe, &file)
        })
        .and_then(|()| contents.write(to));
    for file in own.iter().filter(|file| file.exists()) {
        std::fs::remove_file(file).map_err(|e| ImageError::file("remove", file, e))?;
    }
    result
}

/// Writes `entries` with all their parent directories as a layer to `to`, for [`Recipe::below`] of several images.
///
/// # Errors
/// A file cannot be read, or the layer cannot be written.
pub fn write_layer(entries: &[(String, Entry)], to: &Path) -> Result<(), ImageError> {
    let unfinished = to.with_extension("unfinished");
    seal(&unfinished, |file| layer::write(file, entries))?;
    std::fs::rename(&unfinished, to).map_err(|e| ImageError::file("write", to, e))
}

impl Contents {
    /// Adds an image, whose own layer is written to `file` for the time being.
    fn add(&mut self, recipe: &Recipe, file: &Path) -> Result<(), ImageError> {
        let mut layers = Vec::new();
        for below in &recipe.below {
            layers.push(self.below(below)?);
        }
        if !recipe.entries.is_empty() {
            let own = seal(file, |to| layer::write(to, &recipe.entries))?;
            self.layers.entry(own.clone()).or_insert_with(|| file.to_path_buf());
            layers.push(own);
        }
        let config = self.document("config", &recipe.config(&layers))?;
        let manifest = self.document("manifest", &manifest(&config, &layers))?;
        self.index.push(recipe.entry(&manifest));
        self.docker.push(recipe.docker(&config, &layers));
        Ok(())
    }

    /// The layer in `file`, digested once.
    fn below(&mut self, file: &Path) -> Result<Sealed, ImageError> {
        if let Some((known, _)) = self.layers.iter().find(|(_, known)| *known == file) {
            return Ok(known.clone());
        }
        let sealed = digest(file)?;
        self.layers.insert(sealed.clone(), file.to_path_buf());
        Ok(sealed)
    }

    fn document(&mut self, name: &'static str, value: &Value) -> Result<Sealed, ImageError> {
        let bytes = encode(name, value)?;
        let sealed = Sealed { digest: hex::encode(Sha256::digest(&bytes)), size: bytes.len() as u64 };
        self.documents.insert(sealed.blob(), bytes);
        Ok(sealed)
    }

    fn write(&self, to: &Path) -> Result<(), ImageError> {
        let write = |source| ImageError::file("write", to, source);
        let unfinished = to.with_extension("unfinished");
        let mut tar = tar::Builder::new(File::create(&unfinished).map_err(write)?);
        let index = json!({"schemaVersion": 2, "mediaType": media::INDEX, "manifests": self.index});
        let head = [
            ("oci-layout", encode("layout", &json!({"imageLayoutVersion": "1.0.0"}))?),
            ("index.json", encode("index", &index)?),
            ("manifest.json", encode("docker manifest", &self.docker)?),
        ];
        let head = head.iter().map(|(path, bytes)| (*path, bytes));
        for (path, bytes) in head.chain(self.documents.iter().map(|(path, bytes)| (path.as_str(), bytes))) {
            append(&mut tar, path, &mut bytes.as_slice(), bytes.len() as u64).map_err(write)?;
        }
        for (layer, file) in &self.layers {
            let mut bytes = File::open(file).map_err(|e| ImageError::file("read", file, e))?;
            append(&mut tar, &layer.blob(), &mut bytes, layer.size).map_err(write)?;
        }
        tar.into_inner().and_then(|file| file.sync_all()).map_err(write)?;
        std::fs::rename(&unfinished, to).map_err(write)
    }
}

fn manifest(config: &Sealed, layers: &[Sealed]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": media::MANIFEST,
        "config": descriptor(media::CONFIG, config),
        "layers": layers.iter().map(|layer| descriptor(media::LAYER, layer)).collect::<Vec<_>>(),
    })
}

pub(crate) fn descriptor(media_type: &str, seal: &Sealed) -> Value {
    json!({"mediaType": media_type, "digest": seal.full(), "size": seal.size})
}

fn encode(document: &'static str, value: &impl Serialize) -> Result<Vec<u8>, ImageError> {
    serde_json::to_vec(value).map_err(|source| ImageError::Encode { document, source })
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
    digest(path)
}

fn digest(path: &Path) -> Result<Sealed, ImageError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Archive;

    fn recipe(name: &str, text: &str, below: &[PathBuf]) -> Recipe {
        let entry = ("/x".to_string(), Entry::Text { text: text.to_string(), mode: 0o644 });
        Recipe { name: name.to_string(), entries: vec![entry], below: below.to_vec(), ..Recipe::default() }
    }

    #[test]
    fn images_share_the_layers_below_them() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("base");
        std::fs::write(&base, vec![1; 5000]).unwrap();
        let to = dir.path().join("all.tar");
        let plain = Recipe { entries: Vec::new(), ..recipe("r/c:3", "", std::slice::from_ref(&base)) };
        let one = recipe("r/a:1", "one", std::slice::from_ref(&base));
        let two = recipe("r/b:2", "two", std::slice::from_ref(&base));
        write_archive(&[one, two, plain], &to).unwrap();
        let archive = Archive::open(&to).unwrap();
        assert_eq!(archive.names().collect::<Vec<_>>(), ["r/a:1", "r/b:2", "r/c:3"]);
        let [a, b, c] = archive.images() else { panic!("three images") };
        assert_eq!((a.layers.len(), b.layers.len(), c.layers.len()), (2, 2, 1));
        assert_eq!(a.layers[0], b.layers[0]);
        assert_eq!(a.layers[0], c.layers[0]);
        assert_ne!(a.layers[1], b.layers[1]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "layers are left behind");
    }
}
