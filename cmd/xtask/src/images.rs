//! The shipped images: `images/<name>/image.yaml` turned into a recipe, with every program in its place.

pub(crate) mod description;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;

use crate::{cargo, upstream, workspace};
use description::{Description, Source};

/// The subcommands of `cargo xtask image`.
#[derive(Debug, Subcommand)]
pub(crate) enum Images {
    /// Build images into `bundle/images`; without names, all.
    Build {
        /// Folders below `images/`.
        names: Vec<String>,
        /// The cargo profile of our own programs.
        #[arg(long, default_value = cargo::RELEASE)]
        profile: String,
    },
}

/// Runs one subcommand.
pub(crate) fn run(task: &Images) -> anyhow::Result<()> {
    let Images::Build { names, profile } = task;
    let names = if names.is_empty() { all()? } else { names.clone() };
    upstream::ensure(upstream::Group::Bundled)?;
    build_all(&names, profile, &workspace::root().join("bundle/images"))
}

/// Builds the images `names` into the folder `out`, and what of them cargo makes, with a cargo profile.
pub(crate) fn build_all(names: &[String], profile: &str, out: &Path) -> anyhow::Result<()> {
    // Packages are called like their programs, as far as they go into images.
    let mut packages: Vec<String> = Vec::new();
    for name in names {
        let own = describe(name)?.files.into_values().filter_map(|source| match source {
            Source::Build(package) => Some(package),
            _ => None,
        });
        packages.extend(own);
    }
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    let programs = if packages.is_empty() { PathBuf::new() } else { cargo::build(profile, &packages)? };
    names.iter().try_for_each(|name| build(name, &programs, out))
}

fn describe(name: &str) -> anyhow::Result<Description> {
    Description::read(&workspace::root().join("images").join(name).join("image.yaml"))
}

/// The names of all images.
pub(crate) fn all() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(workspace::root().join("images"))? {
        let path = entry?.path();
        if path.join("image.yaml").exists() {
            names.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// Builds the image `name` into the folder `out`, with our own programs taken from the folder `programs`.
pub(crate) fn build(name: &str, programs: &Path, out: &Path) -> anyhow::Result<()> {
    let recipe = describe(name)?.recipe(programs).with_context(|| format!("image {name}"))?;
    fs::create_dir_all(out)?;
    let to = out.join(format!("{name}.tar"));
    // Whoever reads it meanwhile keeps a whole one.
    let unfinished = to.with_extension(format!("unfinished-{}", std::process::id()));
    recipe.build(&unfinished).with_context(|| format!("image {name}"))?;
    fs::rename(&unfinished, &to).with_context(|| to.display().to_string())?;
    println!("image {} in {} ({} kB)", recipe.name, to.display(), fs::metadata(&to)?.len() / 1000);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_is_understood() {
        let names = all().unwrap();
        assert!(names.contains(&"pause".to_string()));
        for name in names {
            let description = describe(&name).unwrap();
            assert!(description.name.contains(':'), "{name} has no tag");
            assert!(!description.files.is_empty(), "{name} holds nothing");
        }
    }
}
