//! The API server alone, with upstream's flags: for trying it and for tests that need no other part.

use clap::Parser as _;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), copepod_apiserver::ServeError> {
    let config = copepod_apiserver::Config::parse();
    let shutdown = CancellationToken::new();
    let signal = shutdown.clone();
    copepod_supervisor::spawn("signal", async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            signal.cancel();
        }
    });
    copepod_apiserver::run(config, shutdown).await
}
