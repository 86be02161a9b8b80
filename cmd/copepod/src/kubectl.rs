//! `copepod kubectl …`: the bundled kubectl with this node's kubeconfig.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::Context;

use crate::node_config::NodeArgs;

/// Flags of `kubectl`: all of them are kubectl's.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// What kubectl gets
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = std::env::var_os("COPEPOD_ROOT").unwrap_or_else(|| "/".into());
    let node = NodeArgs {
        root: root.into(),
        config: None,
        bundle: std::env::var_os("COPEPOD_BUNDLE").map(Into::into),
        node_name: None,
        node_ips: Vec::new(),
        proxy_mode: None,
    };
    let program = node.bundle()?.join("bin/kubectl");
    let mut command = copepod_sys::command(&program);
    command.args(args.args);
    if std::env::var_os("KUBECONFIG").is_none() {
        command.env("KUBECONFIG", node.layout().kubeconfig("admin"));
    }
    // Replaces this process, so that signals and the exit code are kubectl's own.
    let error = command.exec();
    Err(error).with_context(|| format!("start {}", program.display()))
}
