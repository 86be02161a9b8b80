//! Our own programs, built by cargo.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use copepod_sys::command;
use serde::Deserialize;

use crate::workspace;

/// The profile of everything that is shipped or measured.
pub(crate) const RELEASE: &str = "release";

/// The cargo that runs this task, or the one in the PATH; never a path remembered from the build, because that one
/// would not tell rustup which toolchain it belongs to.
pub(crate) fn program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Builds `packages` and returns the folder that holds their programs.
pub(crate) fn build(profile: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let mut build = command(program());
    // What the cargo that runs this task says of the task's own package; some build scripts look at these variables and
    // would build everything above them anew, each time that another cargo has the word.
    for (name, _) in std::env::vars_os() {
        let told = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| told.starts_with(prefix)) {
            build.env_remove(name);
        }
    }
    build.current_dir(workspace::root()).args(["build", "--locked", "--profile", profile]);
    build.args(["--message-format", "json-render-diagnostics"]);
    for package in packages {
        build.args(["--package", package]);
    }
    let output = build.stderr(std::process::Stdio::inherit()).output().context("cargo build")?;
    ensure!(output.status.success(), "cargo build failed: {}", output.status);
    let programs = executables(&String::from_utf8(output.stdout)?);
    let folder = programs.first().and_then(|program| program.parent()).context("cargo built no program")?;
    Ok(folder.to_path_buf())
}

fn executables(messages: &str) -> Vec<PathBuf> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
    }
    let parse = |line: &str| serde_json::from_str::<Message>(line).ok()?.executable;
    messages.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"executable\":\"/t/release/pause\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\nnoise\n";
        assert_eq!(executables(messages), [PathBuf::from("/t/release/pause")]);
    }
}
