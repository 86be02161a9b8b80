//! Build tasks of the workspace: `cargo xtask <task>`.
//!
//! What is more than a cargo invocation and less than a program of its own lives here: building upstream's pinned
//! Go programs, the tree's own rules (`tidy`), images, the bundle and the oracle. Every task is idempotent, says what
//! it does and leaves its results outside the source tree except for `bundle/`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program reports to its terminal"
)]

mod bundle;
mod cargo;
mod conformance;
mod images;
mod mirror;
mod node;
mod oracle;
mod schema;
mod tidy;
mod upstream;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Build tasks of the copepod workspace")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Upstream's own programs (containerd, runc, etcd, kubectl, crictl, …), built from pinned Go modules.
    #[command(subcommand)]
    Upstream(upstream::Upstream),
    /// Run a command in an empty node of its own: namespaces, links, a private root.
    Node(node::Node),
    /// Upstream's own components in a node: the second opinion.
    #[command(subcommand)]
    Oracle(oracle::OracleTask),
    /// Upstream's conformance suite.
    #[command(subcommand)]
    Conformance(conformance::Conformance),
    /// The shipped images.
    #[command(subcommand)]
    Image(images::Images),
    /// Build everything and put it together in `bundle/`.
    Bundle(bundle::Bundle),
    /// Check the tree's rules: layer edges, file sizes, forbidden names.
    Tidy,
    /// Regenerate pkg/schema/data from upstream's published Go modules.
    Schema,
}

fn main() -> anyhow::Result<ExitCode> {
    // A node's own processes are this same program under hidden names.
    copepod_testkit::dispatch();
    match Cli::parse().task {
        Task::Node(options) => return node::run(&options),
        Task::Conformance(task) => return conformance::run(&task),
        Task::Oracle(task) => return oracle::run(&task),
        Task::Upstream(task) => upstream::run(&task),
        Task::Image(task) => images::run(&task),
        Task::Bundle(options) => bundle::run(&options),
        Task::Tidy => tidy::run(),
        Task::Schema => schema::run(&workspace::root()),
    }?;
    Ok(ExitCode::SUCCESS)
}
