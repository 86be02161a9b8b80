//! The tree's own rules, those that no compiler or linter knows: layer edges, file sizes, forbidden names.
//!
//! The rules are pure functions over what was read (`layers::check`, `files::check`); only this module does I/O.

mod files;
mod layers;

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use copepod_sys::command;

use crate::{cargo, workspace};

/// Where our Rust sources are.
const SOURCES: &[&str] = &["cmd", "pkg"];

/// Checks the whole tree and names every problem at once.
pub(crate) fn run() -> anyhow::Result<()> {
    let packages = layers::parse(&metadata()?)?;
    let mut problems = layers::check(&packages);
    let mut count = 0;
    for dir in SOURCES {
        visit(&workspace::root().join(dir), &mut |path| {
            count += 1;
            let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            let name = path.strip_prefix(workspace::root()).unwrap_or(path);
            problems.extend(files::check(name, &text));
            Ok(())
        })?;
    }
    for problem in &problems {
        eprintln!("tidy: {problem}");
    }
    if !problems.is_empty() {
        bail!("{} problem(s) in {} crates, {count} files", problems.len(), packages.len());
    }
    println!("tidy: {} crates, {count} files, no problem", packages.len());
    Ok(())
}

fn metadata() -> anyhow::Result<String> {
    let output = command(cargo::program())
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(workspace::root())
        .output()
        .context("cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    String::from_utf8(output.stdout).context("cargo metadata is not UTF-8")
}

fn visit(dir: &Path, each: &mut dyn FnMut(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| entry.map(|e| e.path())).collect())
        .with_context(|| dir.display().to_string())?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            visit(&path, each)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            each(&path)?;
        }
    }
    Ok(())
}
