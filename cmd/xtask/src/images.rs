//! The shipped images: `images/<name>/image.yaml` turned into a recipe, with every program in its place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use copepod_image::{Entry, Recipe};
use copepod_sys::command;
use serde::Deserialize;

use crate::{cargo, upstream, workspace};

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

/// What `image.yaml` says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    #[serde(default)]
    entrypoint: Vec<String>,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    environment: Vec<String>,
    #[serde(default)]
    user: String,
    #[serde(default)]
    files: BTreeMap<String, Source>,
    #[serde(default)]
    links: BTreeMap<String, String>,
    #[serde(default)]
    directories: Vec<String>,
    /// Where busybox's own names for itself are linked.
    applets: Option<String>,
}

/// Where a file comes from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Source {
    Build(String),
    Upstream(String),
    Host(PathBuf),
    Text(String),
}

/// Runs one subcommand.
pub(crate) fn run(task: &Images) -> anyhow::Result<()> {
    let Images::Build { names, profile } = task;
    let names = if names.is_empty() { all()? } else { names.clone() };
    upstream::ensure(upstream::Group::Bundled)?;
    // Packages are called like their programs, as far as they go into images.
    let mut packages: Vec<String> = Vec::new();
    for name in &names {
        let own = describe(name)?.files.into_values().filter_map(|source| match source {
            Source::Build(package) => Some(package),
            _ => None,
        });
        packages.extend(own);
    }
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    let programs = if packages.is_empty() { PathBuf::new() } else { cargo::build(profile, &packages)? };
    let out = workspace::root().join("bundle/images");
    names.iter().try_for_each(|name| build(name, &programs, &out))
}

fn describe(name: &str) -> anyhow::Result<Description> {
    let path = workspace::root().join("images").join(name).join("image.yaml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
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
    let path = workspace::root().join("images").join(name).join("image.yaml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let description: Description =
        serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
    let recipe = recipe(description, programs).with_context(|| format!("image {name}"))?;
    fs::create_dir_all(out)?;
    let to = out.join(format!("{name}.tar"));
    recipe.build(&to).with_context(|| format!("image {name}"))?;
    println!("image {} in {} ({} kB)", recipe.name, to.display(), fs::metadata(&to)?.len() / 1000);
    Ok(())
}

fn recipe(description: Description, programs: &Path) -> anyhow::Result<Recipe> {
    let mut entries = Vec::new();
    if let Some(directory) = &description.applets {
        entries.extend(applets(directory)?);
    }
    for (path, source) in description.files {
        entries.push((path, entry(source, programs)?));
    }
    entries.extend(description.links.into_iter().map(|(path, target)| (path, Entry::Link { target })));
    entries.extend(description.directories.into_iter().map(|path| (path, Entry::Directory { mode: 0o1777 })));
    Ok(Recipe {
        name: description.name.replace("{version}", env!("CARGO_PKG_VERSION")),
        architecture: workspace::host_arch()?.to_string(),
        entries,
        entrypoint: description.entrypoint,
        command: description.command,
        environment: description.environment,
        user: description.user,
    })
}

fn entry(source: Source, programs: &Path) -> anyhow::Result<Entry> {
    let from = match source {
        Source::Text(text) => return Ok(Entry::Text { text, mode: 0o644 }),
        Source::Build(name) => programs.join(name),
        Source::Upstream(name) => upstream::binary(&name)?,
        Source::Host(path) => path,
    };
    ensure!(from.exists(), "{} is missing; `make deps` installs what the build needs", from.display());
    Ok(Entry::File { from, mode: 0o755 })
}

/// One link for each command that the build machine's busybox knows.
fn applets(directory: &str) -> anyhow::Result<Vec<(String, Entry)>> {
    let output = command("/bin/busybox").arg("--list").output().context("busybox --list")?;
    let list = String::from_utf8(output.stdout)?;
    if list.is_empty() {
        bail!("busybox knows no commands");
    }
    let link = |name: &str| (format!("{directory}/{name}"), Entry::Link { target: "busybox".to_string() });
    Ok(list.lines().filter(|name| *name != "busybox").map(link).collect())
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

    #[test]
    fn misspelt_keys_and_sources_are_refused() {
        assert!(serde_saphyr::from_str::<Description>("name: a:1\nfile: {}\n").is_err());
        assert!(serde_saphyr::from_str::<Description>("name: a:1\nfiles: {/x: {made: y}}\n").is_err());
    }

    #[test]
    fn the_name_carries_our_version() {
        let description =
            serde_saphyr::from_str("name: localhost/x:v{version}\nfiles: {/a: {text: b}}\n").unwrap();
        let recipe = recipe(description, Path::new("/nowhere")).unwrap();
        assert_eq!(recipe.name, format!("localhost/x:v{}", env!("CARGO_PKG_VERSION")));
        assert!(entry(Source::Build("none".to_string()), Path::new("/nowhere")).is_err());
    }
}
