//! `copepod kubeconfig`, `copepod status`.

use std::process::ExitCode;

use anyhow::Context;
use copepod_client::{Client, ClientConfig, ListOptions, resources};
use serde_json::Value;

use crate::node_config::NodeArgs;
use crate::runtime::{Threads, block_on};

/// Flags of `kubeconfig`.
#[derive(Debug, clap::Args)]
pub(crate) struct KubeconfigArgs {
    /// Server address to write instead of this machine's own, for use from elsewhere
    #[arg(long)]
    server: Option<String>,
    #[command(flatten)]
    node: NodeArgs,
}

/// Flags of `status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn kubeconfig(args: &KubeconfigArgs) -> anyhow::Result<ExitCode> {
    let path = args.node.layout().kubeconfig("admin");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    match &args.server {
        None => print!("{text}"),
        Some(server) => {
            let mut document: Value =
                serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))?;
            document["clusters"][0]["cluster"]["server"] = server.as_str().into();
            print!("{}", serde_saphyr::to_string(&document).context("write the kubeconfig")?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The state of the node and of the system's pods; exit code 1 when anything is not as it should be.
pub(crate) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let path = args.node.layout().kubeconfig("admin");
    let client = Client::new(&ClientConfig::from_kubeconfig(&path)?)?;
    let (nodes, pods) = block_on(Threads::One, async {
        let options = ListOptions::default();
        let nodes = client.list::<Value>(&resources::NODES.collection(""), &options).await?;
        let pods = client.list::<Value>(&resources::PODS.collection("kube-system"), &options).await?;
        Ok((nodes.items, pods.items))
    })
    .context("ask the API server")?;
    let mut well = true;
    for (kind, object) in nodes.iter().map(|n| ("node", n)).chain(pods.iter().map(|p| ("pod", p))) {
        let ready = condition(object, "Ready") == Some("True");
        well &= ready;
        println!("{kind} {}: {}", copepod_api::meta::name(object), if ready { "ready" } else { "NOT READY" });
    }
    Ok(if well && !nodes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The status of a condition.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|c| c["type"] == kind)?["status"].as_str()
}
