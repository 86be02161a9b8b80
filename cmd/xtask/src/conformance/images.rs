//! The test images: descriptions in `testdata/conformance/images`, one archive in the cache.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use copepod_image::{Recipe, write_archive, write_layer};
use sha2::{Digest, Sha256};

use super::debian;
use crate::images::description::Description;
use crate::{upstream, workspace};

/// Raised when the same descriptions make other images.
const FORM: u8 = 1;

/// Where the archive of all test images is, once it is built.
pub(crate) fn archive() -> anyhow::Result<PathBuf> {
    Ok(home()?.join(format!("images-{}-{}.tar", fingerprint()?, workspace::host_arch()?)))
}

fn home() -> anyhow::Result<PathBuf> {
    Ok(workspace::cache()?.join("conformance"))
}

/// The archive of all test images, built first if need be.
pub(super) fn ensure() -> anyhow::Result<PathBuf> {
    let archive = archive()?;
    if archive.exists() {
        return Ok(archive);
    }
    upstream::ensure(upstream::Group::Bundled)?;
    upstream::ensure_tool("suite")?;
    let work = home()?.join(format!("layers-{}", std::process::id()));
    fs::create_dir_all(&work).with_context(|| work.display().to_string())?;
    let recipes = Descriptions::read()?.recipes(&work)?;
    let unfinished = work.join("images.tar");
    write_archive(&recipes, &unfinished)?;
    fs::rename(&unfinished, &archive)?;
    fs::remove_dir_all(&work).with_context(|| work.display().to_string())?;
    for recipe in &recipes {
        eprintln!("image {}", recipe.name);
    }
    eprintln!("{} ({} MB)", archive.display(), fs::metadata(&archive)?.len() / 1_000_000);
    Ok(archive)
}

fn descriptions() -> PathBuf {
    workspace::root().join("testdata/conformance/images")
}

/// What the archive depends on: the descriptions, and the version of the programs.
fn fingerprint() -> anyhow::Result<String> {
    let mut sum = Sha256::new();
    sum.update([FORM]);
    for name in ["suite", "etcd"] {
        sum.update(upstream::version(name)?);
    }
    for path in files()? {
        sum.update(fs::read(&path).with_context(|| path.display().to_string())?);
    }
    Ok(hex::encode(sum.finalize()).chars().take(12).collect())
}

fn files() -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let folder = descriptions();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// All descriptions by name.
struct Descriptions(BTreeMap<String, Description>);

impl Descriptions {
    fn read() -> anyhow::Result<Self> {
        let read = |path: PathBuf| -> anyhow::Result<(String, Description)> {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok((name, Description::read(&path)?))
        };
        files()?.into_iter().map(read).collect::<anyhow::Result<_>>().map(Self)
    }

    /// The images' recipes, with every layer as a file in the folder `work`.
    fn recipes(self, work: &Path) -> anyhow::Result<Vec<Recipe>> {
        let mut made: BTreeMap<String, Recipe> = BTreeMap::new();
        let mut left = self.0;
        // A base is made before what stands on it; a name that never gets its turn has no base or is its own.
        while !left.is_empty() {
            let ready = left.iter().find(|(_, d)| d.base.as_ref().is_none_or(|base| made.contains_key(base)));
            let name = ready.map(|(name, _)| name.clone());
            let name = name.with_context(|| format!("no base for any of {:?}", left.keys()))?;
            let Some(description) = left.remove(&name) else { continue };
            let recipe = recipe(&name, description, &made, work).with_context(|| format!("image {name}"))?;
            made.insert(name, recipe);
        }
        Ok(made.into_values().filter(|recipe| !recipe.name.is_empty()).collect())
    }
}

fn recipe(
    name: &str,
    description: Description,
    made: &BTreeMap<String, Recipe>,
    work: &Path,
) -> anyhow::Result<Recipe> {
    let base = description.base.as_ref().and_then(|base| made.get(base));
    let mut below = base.map(|base| base.below.clone()).unwrap_or_default();
    if let Some(packages) = &description.debian {
        below.push(debian::layer(packages)?);
    }
    let mut recipe = description.recipe(Path::new("/nothing of ours is in a test image"))?;
    if !recipe.entries.is_empty() {
        let layer = work.join(format!("{name}.layer"));
        write_layer(&recipe.entries, &layer)?;
        recipe.entries.clear();
        below.push(layer);
    }
    recipe.below = below;
    Ok(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_is_understood_and_has_its_base() {
        let Descriptions(all) = Descriptions::read().unwrap();
        assert!(all.len() > 10);
        for (name, description) in &all {
            assert!(description.base.as_ref().is_none_or(|base| all.contains_key(base)), "{name}");
            assert!(description.name.is_empty() || description.name.contains(':'), "{name}");
        }
    }
}
