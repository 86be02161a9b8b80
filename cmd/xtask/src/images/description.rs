//! What an image's description may say, and the recipe it becomes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use copepod_image::{Entry, Recipe};
use copepod_sys::command;
use serde::Deserialize;

use crate::conformance::busybox;
use crate::{upstream, workspace};

/// What a description says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// With its tag; empty for what is only a base of others.
    #[serde(default)]
    pub(crate) name: String,
    /// The description whose layers are below this one's; nothing else is taken over from it.
    pub(crate) base: Option<String>,
    /// A root file system of Debian packages as the lowest layer.
    pub(crate) debian: Option<Debian>,
    #[serde(default)]
    entrypoint: Vec<String>,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    environment: Vec<String>,
    #[serde(default)]
    user: String,
    #[serde(default)]
    pub(crate) files: BTreeMap<String, Source>,
    #[serde(default)]
    links: BTreeMap<String, String>,
    #[serde(default)]
    directories: Vec<String>,
    /// Files that run as their owner, root.
    #[serde(default)]
    setuid: Vec<String>,
    /// Where busybox's own names for itself are linked.
    applets: Option<String>,
}

/// A root file system of Debian packages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Debian {
    pub(crate) suite: String,
    pub(crate) packages: Vec<String>,
    /// What of them is left out, as the shell's patterns.
    pub(crate) remove: Vec<String>,
    /// Lines for the end of a file.
    pub(crate) append: BTreeMap<String, String>,
}

/// Where a file comes from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// A program of this workspace.
    Build(String),
    /// A program of the table in `upstream/tools.rs`.
    Upstream(String),
    /// A file of the build machine.
    Host(PathBuf),
    /// This very text.
    Text(String),
    /// A file of upstream's Go module.
    Kubernetes(String),
    /// busybox in its own default configuration, of this version.
    Busybox(String),
}

impl Description {
    /// Reads the description at `path`.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
    }

    /// The recipe, with our own programs taken from the folder `programs`; without what is below.
    pub(crate) fn recipe(self, programs: &Path) -> anyhow::Result<Recipe> {
        let mut entries = Vec::new();
        for (path, source) in self.files {
            let mut entry = entry(source, programs)?;
            if let (true, Entry::File { mode, .. }) = (self.setuid.contains(&path), &mut entry) {
                *mode |= 0o4000;
            }
            entries.push((path, entry));
        }
        if let Some(directory) = &self.applets {
            entries.splice(0..0, applets(directory, &entries)?);
        }
        entries.extend(self.links.into_iter().map(|(path, target)| (path, Entry::Link { target })));
        entries.extend(self.directories.into_iter().map(|path| (path, Entry::Directory { mode: 0o1777 })));
        Ok(Recipe {
            name: self.name.replace("{version}", env!("CARGO_PKG_VERSION")),
            architecture: workspace::host_arch()?.to_string(),
            below: Vec::new(),
            entries,
            entrypoint: self.entrypoint,
            command: self.command,
            environment: self.environment,
            user: self.user,
        })
    }
}

fn entry(source: Source, programs: &Path) -> anyhow::Result<Entry> {
    let (from, mode) = match source {
        Source::Text(text) => return Ok(Entry::Text { text, mode: 0o644 }),
        Source::Build(name) => (programs.join(name), 0o755),
        Source::Upstream(name) => (upstream::binary(&name)?, 0o755),
        Source::Host(path) => (path, 0o755),
        Source::Kubernetes(path) => (upstream::module_dir("suite", "k8s.io/kubernetes")?.join(path), 0o644),
        Source::Busybox(version) => (busybox::program(&version)?, 0o755),
    };
    ensure!(from.exists(), "{} is missing; `make deps` installs what the build needs", from.display());
    Ok(Entry::File { from, mode })
}

/// One link for each command that the image's busybox, among `entries`, knows.
fn applets(directory: &str, entries: &[(String, Entry)]) -> anyhow::Result<Vec<(String, Entry)>> {
    let place = format!("{directory}/busybox");
    let program = entries.iter().find_map(|(path, entry)| match entry {
        Entry::File { from, .. } if *path == place => Some(from),
        _ => None,
    });
    let program = program.with_context(|| format!("applets need {place}"))?;
    let output = command(program).arg("--list").output().context("busybox --list")?;
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
    fn misspelt_keys_and_sources_are_refused() {
        assert!(serde_saphyr::from_str::<Description>("name: a:1\nfile: {}\n").is_err());
        assert!(serde_saphyr::from_str::<Description>("name: a:1\nfiles: {/x: {made: y}}\n").is_err());
    }

    #[test]
    fn the_name_carries_our_version() {
        let description: Description =
            serde_saphyr::from_str("name: localhost/x:v{version}\nfiles: {/a: {text: b}}\n").unwrap();
        let recipe = description.recipe(Path::new("/nowhere")).unwrap();
        assert_eq!(recipe.name, format!("localhost/x:v{}", env!("CARGO_PKG_VERSION")));
        assert!(entry(Source::Build("none".to_string()), Path::new("/nowhere")).is_err());
    }

    #[test]
    fn a_file_may_run_as_its_owner() {
        let text = "files: {/a: {host: /bin/sh}, /b: {host: /bin/sh}}\nsetuid: [/b]\n";
        let description: Description = serde_saphyr::from_str(text).unwrap();
        let recipe = description.recipe(Path::new("/nowhere")).unwrap();
        let modes: Vec<u32> = recipe.entries.iter().map(|(_, entry)| mode(entry)).collect();
        assert_eq!(modes, [0o755, 0o4755]);
    }

    fn mode(entry: &Entry) -> u32 {
        match entry {
            Entry::File { mode, .. } | Entry::Text { mode, .. } | Entry::Directory { mode } => *mode,
            Entry::Link { .. } => 0,
        }
    }
}
