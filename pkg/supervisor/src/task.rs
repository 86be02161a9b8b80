//! Named tasks: every background task of the project is started by [`spawn`].

use std::future::Future;

use tokio::task::JoinHandle;
use tracing::Instrument;

/// A running named task. Dropping it does not stop the task; [`Task::abort`] does.
#[derive(Debug)]
pub struct Task<T = ()> {
    name: &'static str,
    handle: JoinHandle<T>,
}

impl<T> Task<T> {
    /// The name given at [`spawn`].
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Stops the task at its next await point.
    pub fn abort(&self) {
        self.handle.abort();
    }

    /// Whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Waits for the task; `None` when it panicked or was aborted (a panic is logged).
    pub async fn join(self) -> Option<T> {
        match self.handle.await {
            Ok(value) => Some(value),
            Err(error) => {
                if error.is_panic() {
                    tracing::error!(task = self.name, "task panicked");
                }
                None
            }
        }
    }
}

/// Starts `future` as a task in a span that carries `name`.
#[expect(clippy::disallowed_methods, reason = "this is the one place that spawns tasks")]
pub fn spawn<F>(name: &'static str, future: F) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let span = tracing::info_span!("task", name);
    Task { name, handle: tokio::spawn(future.instrument(span)) }
}
