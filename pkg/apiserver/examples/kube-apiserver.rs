//! The API server alone, with upstream's flags: for trying it and for tests that need no other part.

use clap::Parser as _;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), copepod_apiserver::ServeError> {
    let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned());
    copepod_telemetry::init(&filter).expect("a filter that can be parsed, set once");
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
