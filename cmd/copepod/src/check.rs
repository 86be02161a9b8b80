//! `copepod check`: everything that stands in the way of a node, at once.

use std::process::ExitCode;

use copepod_bootstrap::preflight::{self, Problem};

use crate::node_config::NodeArgs;

/// Flags of `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let node = args.node.node()?;
    let running = node.layout.containerd_socket().exists();
    let problems = preflight::check(&node, running);
    if problems.is_empty() {
        println!("Nothing stands in the way of node {} at {}.", node.config.node_name, node.ip());
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", describe(&problems));
    let fatal = problems.iter().any(|p| p.fatal);
    Ok(if fatal { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// One paragraph per problem.
pub(crate) fn describe(problems: &[Problem]) -> String {
    let line = |p: &Problem| {
        let mark = if p.fatal { "error" } else { "warning" };
        format!("{mark}: {}\n    fix: {}\n", p.what, p.fix)
    };
    problems.iter().map(line).collect()
}
