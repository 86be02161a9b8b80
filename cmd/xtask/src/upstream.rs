//! Upstream's own programs, built from the Go modules pinned under `packaging/upstream` and `testdata/conformance`.
//!
//! A tool is one module with a go.mod and go.sum of its own, so that two tools never negotiate versions. The result
//! goes to `<cache>/upstream/<tool>-<version>-<arch>/bin` and is never rebuilt once it is there: the version is part of
//! the path and a binary is moved in only after it has answered with the version expected. `<cache>/upstream/READY`
//! lists the finished binaries of the pinned versions, one path a line.

mod build;
mod go;
mod tools;

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;

use crate::workspace;
pub(crate) use tools::{Group, TOOLS, Tool};

/// The subcommands of `cargo xtask upstream`.
#[derive(Debug, Subcommand)]
pub(crate) enum Upstream {
    /// Build what is missing; without names, everything that is bundled.
    Build {
        /// Tools by name (`list` shows them), or the groups `bundled`, `test`, `oracle`, `suite`, `all`.
        tools: Vec<String>,
        /// The architecture to build for, in Go's words.
        #[arg(long)]
        arch: Option<String>,
    },
    /// Show the tools, their versions and what is built.
    List,
}

/// Runs one subcommand.
pub(crate) fn run(task: &Upstream) -> anyhow::Result<()> {
    match task {
        Upstream::Build { tools, arch } => {
            let arch = arch.as_deref().map_or_else(workspace::host_arch, |a| go::known_arch(a))?;
            build::build(&select(tools)?, arch)
        }
        Upstream::List => list(),
    }
}

/// Builds whatever of `group` is missing for this machine.
pub(crate) fn ensure(group: Group) -> anyhow::Result<()> {
    let tools: Vec<_> = TOOLS.iter().filter(|t| t.group == group).collect();
    build::build(&tools, workspace::host_arch()?)
}

/// Builds whatever of the tool `name` is missing for this machine.
pub(crate) fn ensure_tool(name: &str) -> anyhow::Result<()> {
    build::build(&[tool(name)?], workspace::host_arch()?)
}

/// The finished binary `name` of any tool, for this machine.
pub(crate) fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let tool = TOOLS
        .iter()
        .find(|t| t.binaries.iter().any(|b| b.name == name))
        .with_context(|| format!("no upstream tool has a binary {name}"))?;
    Ok(build::bin_dir(tool, workspace::host_arch()?)?.join(name))
}

/// The version of the tool `name`, as its go.mod pins it.
pub(crate) fn version(name: &str) -> anyhow::Result<String> {
    build::version(tool(name)?)
}

fn tool(name: &str) -> anyhow::Result<&'static Tool> {
    TOOLS.iter().find(|t| t.name == name).with_context(|| format!("no upstream tool {name}"))
}

/// The folder of the Go module `module` in Go's module cache, as the tool `name` pins it.
pub(crate) fn module_dir(name: &str, module: &str) -> anyhow::Result<PathBuf> {
    build::module_dir(tool(name)?, module)
}

fn select(names: &[String]) -> anyhow::Result<Vec<&'static Tool>> {
    if names.is_empty() {
        return Ok(TOOLS.iter().filter(|t| t.group == Group::Bundled).collect());
    }
    let mut chosen: Vec<&'static Tool> = Vec::new();
    for name in names {
        let before = chosen.len();
        for tool in TOOLS.iter().filter(|t| name == "all" || t.name == name || t.group.name() == name) {
            if !chosen.iter().any(|c| c.name == tool.name) {
                chosen.push(tool);
            }
        }
        let known = TOOLS.iter().any(|t| name == "all" || t.name == name || t.group.name() == name);
        anyhow::ensure!(
            known || chosen.len() > before,
            "no tool or group named {name}; see `cargo xtask upstream list`"
        );
    }
    Ok(chosen)
}

fn list() -> anyhow::Result<()> {
    let arch = workspace::host_arch()?;
    for tool in TOOLS {
        let dir = build::bin_dir(tool, arch)?;
        println!("{} {} ({})", tool.name, build::version(tool)?, tool.group.name());
        for binary in tool.binaries {
            let path = dir.join(binary.name);
            println!("    {} {}", if path.exists() { "built  " } else { "missing" }, path.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_groups_select_without_repetition() {
        let names = |input: &[&str]| -> Vec<&str> {
            let input: Vec<String> = input.iter().map(ToString::to_string).collect();
            select(&input).unwrap().iter().map(|t| t.name).collect()
        };
        assert_eq!(names(&["etcd", "etcd"]), ["etcd"]);
        assert!(names(&[]).contains(&"containerd"));
        assert!(!names(&[]).contains(&"oracle"));
        assert_eq!(names(&["all"]).len(), TOOLS.len());
        assert!(select(&["nonesuch".to_string()]).is_err());
    }

    #[test]
    fn every_tool_is_pinned_in_its_go_mod() {
        for tool in TOOLS {
            let version = build::version(tool).unwrap();
            assert!(version.starts_with('v'), "{}: {version}", tool.name);
        }
    }
}
