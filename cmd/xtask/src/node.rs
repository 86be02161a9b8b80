//! A bare node to look around in: namespaces, links and a private root, but nothing running.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use copepod_testkit::{Node as Namespaces, Side};

/// The options of `cargo xtask node`.
#[derive(Debug, Args)]
pub(crate) struct Node {
    /// Leave the private root behind.
    #[arg(long)]
    keep: bool,
    /// What to run in it; a shell where nothing is said.
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// Makes a node, runs the command in it, removes the node; the exit code is the command's.
pub(crate) fn run(options: &Node) -> anyhow::Result<ExitCode> {
    let node = Namespaces::builder().name("bare").keep_root(options.keep).start()?;
    let shell = OsString::from("/bin/sh");
    let program = options.command.first().unwrap_or(&shell);
    let status = node.command(Side::Node, program).args(options.command.iter().skip(1)).status()?;
    node.stop()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
