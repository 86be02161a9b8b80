//! Runs the proxy alone against any API server: `proxy KUBECONFIG NODE NODE_IP [MODE]`, inside the node's namespaces.

use copepod_proxy::{Config, run};
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, node, ip, mode @ ..] = args.as_slice() else {
        return Err("usage: proxy KUBECONFIG NODE NODE_IP [MODE]".into());
    };
    copepod_telemetry::init("debug,h2=warn,hyper=warn,rustls=warn,nlink=warn")?;
    let mut config = Config::new(kubeconfig, node.as_str(), vec![ip.parse()?]);
    config.mode = mode.first().map(String::as_str).unwrap_or_default().parse()?;
    Ok(run(config, CancellationToken::new()).await?)
}
