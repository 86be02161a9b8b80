//! Where things are: the source tree, the cache outside it, the machine's architecture.

use std::path::PathBuf;

use anyhow::{Context, bail};

/// The root of the source tree.
pub(crate) fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).map_or_else(|| manifest.clone(), PathBuf::from)
}

/// The cache for what is expensive to build and does not belong in the tree: `$COPEPOD_CACHE`, else `~/.cache/copepod`.
pub(crate) fn cache() -> anyhow::Result<PathBuf> {
    if let Some(dir) = std::env::var_os("COPEPOD_CACHE") {
        return Ok(PathBuf::from(dir));
    }
    let home = std::env::var_os("HOME").context("neither COPEPOD_CACHE nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cache/copepod"))
}

/// This machine's architecture in Go's words, which are also those of OCI images and of our file names.
pub(crate) fn host_arch() -> anyhow::Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no build for the architecture {other}"),
    }
}
