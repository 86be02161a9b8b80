//! Reading an image archive: which images it holds, and the bytes of their parts without unpacking it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::ImageError;

/// The label by which containerd and `ctr` name an image inside an archive.
const NAME: &str = "io.containerd.image.name";

/// An image archive, opened and indexed.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    /// Where each entry's bytes are: offset and length.
    entries: BTreeMap<String, (u64, u64)>,
    images: Vec<Image>,
}

/// One image of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) manifest: Blob,
    pub(crate) config: Blob,
    pub(crate) layers: Vec<Blob>,
}

/// A part of an image: what it is and where to find it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blob {
    /// What kind of document or layer it is.
    pub media_type: String,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// In bytes.
    pub size: u64,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(flatten)]
    blob: Blob,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Manifest {
    config: Blob,
    layers: Vec<Blob>,
}

impl Archive {
    /// Opens and indexes the archive at `path`.
    ///
    /// # Errors
    /// It cannot be read, or is no OCI layout with named images.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, ImageError> {
        let path = path.into();
        let entries = index(&path)?;
        let mut archive = Self { path, entries, images: Vec::new() };
        let index: Index = archive.document("index.json")?;
        archive.images =
            index.manifests.into_iter().map(|named| archive.image(named)).collect::<Result<_, _>>()?;
        Ok(archive)
    }

    /// The names of the images in it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.images.iter().map(|image| image.name.as_str())
    }

    /// Where the archive is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(any(feature = "containerd", feature = "registry", test))]
    pub(crate) fn images(&self) -> &[Image] {
        &self.images
    }

    /// A reader of the bytes of `blob`.
    ///
    /// # Errors
    /// The archive does not hold it in the size it should have.
    pub fn read(&self, blob: &Blob) -> Result<impl Read + use<>, ImageError> {
        let name = format!("blobs/{}", blob.digest.replace(':', "/"));
        let (offset, size) = self.find(&name)?;
        if size != blob.size {
            return Err(self.malformed(format!("{name} has {size} bytes, expected {}", blob.size)));
        }
        self.section(offset, size)
    }

    /// Where in the archive's file the blob `digest` is: offset and length.
    #[cfg(feature = "registry")]
    pub(crate) fn place(&self, digest: &str) -> Option<(u64, u64)> {
        self.entries.get(&format!("blobs/{}", digest.replace(':', "/"))).copied()
    }

    fn image(&self, named: Named) -> Result<Image, ImageError> {
        let name = named.annotations.get(NAME).cloned();
        let name = name.ok_or_else(|| self.malformed(format!("{} has no name", named.blob.digest)))?;
        let text = self.read(&named.blob).and_then(|reader| self.text(reader))?;
        let manifest: Manifest = self.parse(&text)?;
        Ok(Image { name, manifest: named.blob, config: manifest.config, layers: manifest.layers })
    }

    fn document<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<T, ImageError> {
        let (offset, size) = self.find(name)?;
        let text = self.section(offset, size).and_then(|reader| self.text(reader))?;
        self.parse(&text)
    }

    fn parse<T: for<'de> Deserialize<'de>>(&self, text: &str) -> Result<T, ImageError> {
        serde_json::from_str(text).map_err(|error| self.malformed(error.to_string()))
    }

    fn text(&self, mut reader: impl Read) -> Result<String, ImageError> {
        let mut text = String::new();
        reader.read_to_string(&mut text).map_err(|e| ImageError::file("read", &self.path, e))?;
        Ok(text)
    }

    fn find(&self, name: &str) -> Result<(u64, u64), ImageError> {
        self.entries.get(name).copied().ok_or_else(|| self.malformed(format!("it has no {name}")))
    }

    fn section(&self, offset: u64, size: u64) -> Result<impl Read + use<>, ImageError> {
        let open = || -> std::io::Result<_> {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(offset))?;
            Ok(file.take(size))
        };
        open().map_err(|e| ImageError::file("read", &self.path, e))
    }

    fn malformed(&self, reason: String) -> ImageError {
        ImageError::Malformed { path: self.path.clone(), reason }
    }
}

fn index(path: &Path) -> Result<BTreeMap<String, (u64, u64)>, ImageError> {
    let read = |e| ImageError::file("read", path, e);
    let mut tar = tar::Archive::new(File::open(path).map_err(read)?);
    let mut entries = BTreeMap::new();
    for entry in tar.entries_with_seek().map_err(read)? {
        let entry = entry.map_err(read)?;
        let name = entry.path().map_err(read)?.to_string_lossy().into_owned();
        entries.insert(name, (entry.raw_file_position(), entry.size()));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, Recipe};

    fn recipe(dir: &Path) -> Recipe {
        let program = dir.join("program");
        std::fs::write(&program, vec![7; 100_000]).unwrap();
        Recipe {
            name: "registry.test/a/b:1".to_string(),
            architecture: "amd64".to_string(),
            entries: vec![
                ("/usr/bin/b".to_string(), Entry::File { from: program, mode: 0o755 }),
                ("/bin".to_string(), Entry::Link { target: "usr/bin".to_string() }),
                ("/tmp".to_string(), Entry::Directory { mode: 0o1777 }),
                (
                    "/etc/hosts".to_string(),
                    Entry::Text { text: "127.0.0.1 localhost\n".to_string(), mode: 0o644 },
                ),
            ],
            entrypoint: vec!["/usr/bin/b".to_string()],
            ..Recipe::default()
        }
    }

    #[test]
    fn what_was_built_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("b.tar");
        recipe(dir.path()).build(&to).unwrap();
        let archive = Archive::open(&to).unwrap();
        assert_eq!(archive.names().collect::<Vec<_>>(), ["registry.test/a/b:1"]);
        let image = &archive.images()[0];
        let mut layer = tar::Archive::new(archive.read(&image.layers[0]).unwrap());
        let paths: Vec<_> = layer
            .entries()
            .unwrap()
            .map(|e| e.unwrap().path().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(paths, ["bin", "etc/", "etc/hosts", "tmp/", "usr/", "usr/bin/", "usr/bin/b"]);
        let leftovers: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(leftovers.len(), 2, "{leftovers:?}");
    }

    #[test]
    fn the_same_recipe_gives_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("1.tar"), dir.path().join("2.tar"));
        let mut recipe = recipe(dir.path());
        recipe.build(&one).unwrap();
        recipe.entries.reverse();
        recipe.build(&two).unwrap();
        assert!(std::fs::read(one).unwrap() == std::fs::read(two).unwrap());
    }

    #[test]
    fn other_files_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.tar");
        std::fs::write(&path, vec![0; 1024]).unwrap();
        let error = Archive::open(&path).unwrap_err().to_string();
        assert!(error.contains("x.tar") && error.contains("index.json"), "{error}");
        assert!(Archive::open(dir.path().join("none.tar")).is_err());
    }

    #[test]
    fn a_missing_file_of_the_recipe_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut recipe = recipe(dir.path());
        recipe.entries.push(("/x".to_string(), Entry::File { from: dir.path().join("gone"), mode: 0o755 }));
        assert!(recipe.build(&dir.path().join("b.tar")).unwrap_err().to_string().contains("gone"));
    }
}
