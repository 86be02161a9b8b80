//! Runs the DNS server alone against any API server: `dns KUBECONFIG LISTEN`.

use copepod_dns::{Config, run};
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, listen] = args.as_slice() else { return Err("usage: dns KUBECONFIG LISTEN".into()) };
    copepod_telemetry::init("debug,h2=warn,hyper=warn,rustls=warn")?;
    let config = Config { kubeconfig: Some(kubeconfig.into()), listen: listen.parse()?, ..Config::default() };
    Ok(run(config, CancellationToken::new()).await?)
}
