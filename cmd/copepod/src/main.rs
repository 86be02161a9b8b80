//! The copepod binary: one program for every part of the node.
//!
//! It answers to its own name with subcommands, and to the names of upstream's programs with their flags
//! (`kube-apiserver --etcd-servers=…`), so that replacing the image in a manifest swaps a part. `main` only picks the
//! command; each has a file of its own that turns flags into a component's `Config` and runs it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program reports to its terminal"
)]

mod check;
mod cluster;
mod controller_manager;
mod dns;
mod flags;
mod install_state;
mod kubectl;
mod kubelet;
mod node_config;
mod proxy;
mod runtime;
mod scheduler;
mod server;
mod try_node;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// A whole Kubernetes on one machine.
#[derive(Debug, Parser)]
#[command(name = "copepod", version, about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "parsed once, at the start of the process")]
enum Command {
    /// Run the node: control plane, kubelet and proxy (what the service runs)
    Server(server::Args),
    /// Run a throw-away node in namespaces of its own; Ctrl-C removes every trace
    Try(try_node::Args),
    /// Say what stands in the way of a node on this machine, each thing with its fix
    Check(check::Args),
    /// Run the bundled kubectl against this node
    Kubectl(kubectl::Args),
    /// Print the administrator's kubeconfig
    Kubeconfig(cluster::KubeconfigArgs),
    /// Say how the node is doing
    Status(cluster::StatusArgs),
    /// Stop the node; pods go on running unless --pods is given
    Stop(install_state::StopArgs),
    /// Stop the node and remove everything that was installed
    Uninstall(install_state::UninstallArgs),
    /// Run the API server (also as `kube-apiserver`)
    Apiserver(Box<copepod_apiserver::Config>),
    /// Run the controllers (also as `kube-controller-manager`)
    ControllerManager(controller_manager::Args),
    /// Run the scheduler (also as `kube-scheduler`)
    Scheduler(scheduler::Args),
    /// Run the kubelet alone, against any API server (also as `kubelet`)
    Kubelet(kubelet::Args),
    /// Run the proxy alone, against any API server (also as `kube-proxy`)
    Proxy(proxy::Args),
    /// Run the cluster's DNS server
    Dns(dns::Args),
    /// Print a completion script for a shell
    Completion {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    // A node's own processes are this same program under hidden names; this returns for everybody else.
    copepod_testkit::dispatch();
    let cli = Cli::parse_from(multi_call(std::env::args_os().collect()));
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("copepod: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Upstream's program names become subcommands.
fn multi_call(mut args: Vec<std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    const NAMES: [(&str, &str); 5] = [
        ("kube-apiserver", "apiserver"),
        ("kube-controller-manager", "controller-manager"),
        ("kube-scheduler", "scheduler"),
        ("kubelet", "kubelet"),
        ("kube-proxy", "proxy"),
    ];
    let name = args.first().map(std::path::Path::new).and_then(|p| p.file_name()).and_then(|n| n.to_str());
    let subcommand = NAMES.iter().find(|(known, _)| Some(*known) == name).map(|(_, subcommand)| *subcommand);
    if let Some(subcommand) = subcommand {
        args.insert(1, subcommand.into());
    }
    args
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Server(args) => server::run(args),
        Command::Try(args) => try_node::run(args),
        Command::Check(args) => check::run(&args),
        Command::Kubectl(args) => kubectl::run(args),
        Command::Kubeconfig(args) => cluster::kubeconfig(&args),
        Command::Status(args) => cluster::status(&args),
        Command::Stop(args) => install_state::stop(&args),
        Command::Uninstall(args) => install_state::uninstall(&args),
        Command::Apiserver(config) => {
            runtime::component("kube-apiserver", runtime::Threads::Several, |shutdown| async move {
                Ok(copepod_apiserver::run(*config, shutdown).await?)
            })
        }
        Command::ControllerManager(args) => controller_manager::run(args),
        Command::Scheduler(args) => scheduler::run(args),
        Command::Kubelet(args) => kubelet::run(&args),
        Command::Proxy(args) => proxy::run(&args),
        Command::Dns(args) => dns::run(args),
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "copepod", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_upstreams_names_are_subcommands() {
        Cli::command().debug_assert();
        let args = multi_call(vec!["/usr/bin/kube-scheduler".into(), "--kubeconfig=x".into()]);
        assert_eq!(args, ["/usr/bin/kube-scheduler", "scheduler", "--kubeconfig=x"]);
        assert_eq!(multi_call(vec!["copepod".into(), "check".into()]).len(), 2);
    }
}
