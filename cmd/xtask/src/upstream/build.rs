//! Building one tool: version from its go.mod, `go build`, proof by asking the result, then a move into the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use copepod_sys::command;

use super::tools::Binary;
use super::{TOOLS, Tool, go};
use crate::workspace;

/// Below the priority of whoever sits at this machine.
const NICE: &str = "10";

/// The version of `tool` as its go.mod pins it, with the leading `v`.
pub(super) fn version(tool: &Tool) -> anyhow::Result<String> {
    let path = source_dir(tool).join("go.mod");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    parse_version(&text, tool.module)
        .with_context(|| format!("{} does not require {}", path.display(), tool.module))
}

fn parse_version(go_mod: &str, module: &str) -> Option<String> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module)).then(|| words.next().map(str::to_string)).flatten()
    })
}

/// Where the finished binaries of `tool` for `arch` are.
pub(super) fn bin_dir(tool: &Tool, arch: &str) -> anyhow::Result<PathBuf> {
    let name = format!("{}-{}-{arch}", tool.name, version(tool)?);
    Ok(workspace::cache()?.join("upstream").join(name).join("bin"))
}

/// The folder of the module of `tool`.
pub(super) fn source_dir(tool: &Tool) -> PathBuf {
    workspace::root().join(tool.home).join(tool.name)
}

/// Builds what is missing of `tools`, then rewrites READY.
pub(super) fn build(tools: &[&Tool], arch: &str) -> anyhow::Result<()> {
    for tool in tools {
        let out = bin_dir(tool, arch)?;
        fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
        for binary in tool.binaries {
            if !out.join(binary.name).exists() {
                build_one(tool, binary, arch, &out)?;
                write_ready()?;
            }
        }
    }
    write_ready()
}

fn build_one(tool: &Tool, binary: &Binary, arch: &str, out: &Path) -> anyhow::Result<()> {
    let native = arch == workspace::host_arch()?;
    ensure!(
        native || !tool.cgo,
        "{} needs a C compiler for {arch}; cross-building it is not set up",
        tool.name
    );
    let version = version(tool)?;
    eprintln!("building {} {version} for {arch}", binary.name);
    let unfinished = out.join(format!(".{}.unfinished", binary.name));
    let status = go_build(tool, binary, arch, &version, &unfinished)?.status().context("go build")?;
    ensure!(status.success(), "go build of {} failed: {status}", binary.name);
    ensure!(is_static(&fs::read(&unfinished)?), "{} is not statically linked", binary.name);
    if native {
        verify(&unfinished, binary, &version)?;
    }
    fs::rename(&unfinished, out.join(binary.name)).with_context(|| format!("finishing {}", binary.name))
}

fn go_build(tool: &Tool, binary: &Binary, arch: &str, version: &str, to: &Path) -> anyhow::Result<Command> {
    let mut build = command("nice");
    build
        .args(["-n", NICE])
        .arg(go::find()?)
        // Vetting upstream's tests is upstream's business, and takes as long as compiling them.
        .args(if binary.is_test { &["test", "-c", "-vet=off"][..] } else { &["build"] })
        .args(["-trimpath", "-tags", tool.tags, "-ldflags"])
        .arg(format!("-s -w {}", tool.ldflags.replace("{v}", version)))
        .arg("-o")
        .arg(to)
        .arg(binary.package)
        .current_dir(source_dir(tool))
        // The sums in go.sum decide; a build never edits them. The tree's commit is no business of upstream's binaries.
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .env("GOWORK", "off")
        .env("GOOS", "linux")
        .env("GOARCH", arch)
        .env("CGO_ENABLED", if tool.cgo { "1" } else { "0" });
    Ok(build)
}

/// The folder of `module` in Go's module cache, fetched if it is not there.
pub(super) fn module_dir(tool: &Tool, module: &str) -> anyhow::Result<PathBuf> {
    let output = command(go::find()?)
        .args(["list", "-m", "-f", "{{.Dir}}", module])
        .current_dir(source_dir(tool))
        .env("GOFLAGS", "-mod=readonly")
        .env("GOWORK", "off")
        .output()
        .context("go list")?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_string();
    ensure!(output.status.success() && !said.is_empty(), "go list -m {module} failed: {}", output.status);
    Ok(PathBuf::from(said))
}

/// Asks the program for its version.
fn verify(path: &Path, binary: &Binary, version: &str) -> anyhow::Result<()> {
    if binary.version.is_empty() {
        return Ok(());
    }
    let output = command(path).args(binary.version).output().with_context(|| path.display().to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    let number = version.trim_start_matches('v');
    ensure!(said.contains(number), "{} says {:?}, expected version {number}", binary.name, said.trim());
    Ok(())
}

/// Whether an ELF file asks for no interpreter (no `PT_INTERP` program header).
fn is_static(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let word = |at: usize, len: usize| -> Option<u64> {
        let bytes = elf.get(at..at + len)?;
        Some(bytes.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    };
    let headers = || -> Option<Vec<u64>> {
        // Offsets of the 64-bit little-endian header: e_phoff, e_phentsize, e_phnum.
        let (start, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
        (0..count).map(|n| word(usize::try_from(start + n * size).ok()?, 4)).collect()
    };
    elf.starts_with(b"\x7fELF\x02\x01")
        && headers().is_some_and(|types| !types.contains(&u64::from(PT_INTERP)))
}

/// Lists the finished binaries of the pinned versions, so that tests and people find them without knowing versions.
fn write_ready() -> anyhow::Result<()> {
    publish(&workspace::cache()?.join("upstream"), || {
        let mut lines = String::new();
        for tool in TOOLS {
            let dir = bin_dir(tool, workspace::host_arch()?)?;
            for binary in tool.binaries.iter().filter(|b| dir.join(b.name).exists()) {
                lines.push_str(&format!("{}\n", dir.join(binary.name).display()));
            }
        }
        Ok(lines)
    })
}

/// Writes READY in `folder` anew. Two tasks may build at once: each looks what there is only when it is its turn to
/// write, so the later one never forgets what the earlier one has finished.
fn publish(folder: &Path, list: impl Fn() -> anyhow::Result<String>) -> anyhow::Result<()> {
    let path = folder.join("READY.lock");
    let turn = fs::File::create(&path).with_context(|| path.display().to_string())?;
    turn.lock().with_context(|| path.display().to_string())?;
    let ready = folder.join("READY");
    let unfinished = folder.join("READY.unfinished");
    fs::write(&unfinished, list()?).with_context(|| unfinished.display().to_string())?;
    fs::rename(&unfinished, &ready).with_context(|| ready.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_a_block_or_a_single_line() {
        let block = "module x\n\nrequire (\n\ta/b v1.2.3\n\tc/d v0.1.0 // indirect\n)\n";
        assert_eq!(parse_version(block, "a/b").as_deref(), Some("v1.2.3"));
        assert_eq!(parse_version("require a/b v2.0.0\n", "a/b").as_deref(), Some("v2.0.0"));
        assert_eq!(parse_version(block, "a").as_deref(), None);
    }

    #[test]
    fn tasks_that_build_at_once_lose_nothing() {
        let folder = std::env::temp_dir().join(format!("copepod-ready-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let list = || -> anyhow::Result<String> {
            let entries = fs::read_dir(&folder)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned()));
            let names: Vec<String> = entries.collect::<std::io::Result<_>>()?;
            Ok(names.into_iter().filter(|name| name.starts_with("tool")).collect::<Vec<_>>().join("\n"))
        };
        std::thread::scope(|scope| {
            let tasks: Vec<_> = (0..4)
                .map(|task| {
                    let (folder, list) = (&folder, &list);
                    scope.spawn(move || {
                        for number in 0..25 {
                            fs::write(folder.join(format!("tool-{task}-{number}")), "").unwrap();
                            publish(folder, list).unwrap();
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
        let listed = fs::read_to_string(folder.join("READY")).unwrap().lines().count();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(listed, 100);
    }

    #[test]
    fn an_interpreter_makes_a_binary_dynamic() {
        let elf = |kind: u8| {
            let mut bytes = vec![0; 64 + 56];
            bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
            bytes[32] = 64; // e_phoff
            bytes[54] = 56; // e_phentsize
            bytes[56] = 1; // e_phnum
            bytes[64] = kind;
            bytes
        };
        assert!(is_static(&elf(1)));
        assert!(!is_static(&elf(3)));
        assert!(!is_static(b"#!/bin/sh"));
        assert!(!is_static(&elf(1)[..66]), "a truncated file proves nothing");
    }
}
