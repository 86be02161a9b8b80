//! How a component is run: log, threads, signals, exit code.

use std::future::Future;
use std::process::ExitCode;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How many threads a component works with: each costs memory, so only what serves many clients at once has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The main thread alone.
    One,
    /// One per processor, at most four.
    Several,
}

/// Runs a component until it ends or a signal asks it to.
pub(crate) fn component<F>(
    name: &'static str,
    threads: Threads,
    start: impl FnOnce(CancellationToken) -> F,
) -> anyhow::Result<ExitCode>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let filter = std::env::var("COPEPOD_LOG").unwrap_or_else(|_| "info".to_owned());
    copepod_telemetry::init(&filter)?;
    block_on(threads, async move {
        let shutdown = CancellationToken::new();
        let running = start(shutdown.clone());
        tokio::pin!(running);
        let result = tokio::select! {
            result = &mut running => result,
            () = stop_signal() => {
                tracing::info!(component = name, "asked to stop");
                shutdown.cancel();
                running.await
            }
        };
        result.with_context(|| format!("{name} ended"))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a future on a runtime of its own.
pub(crate) fn block_on<T>(
    threads: Threads,
    future: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut builder = match threads {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Several => {
            let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(processors.min(4));
            builder
        }
    };
    let runtime = builder.enable_all().build().context("start the runtime")?;
    let result = runtime.block_on(future);
    // What is still running has been asked to stop; a blocking call that does not end must not hold us.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    result
}

/// Returns when SIGTERM or SIGINT arrives.
pub(crate) async fn stop_signal() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // Without handlers the default action ends the process, which is what the signals ask for.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
