//! One line per step, with the time it took.

use std::time::Duration;

use anyhow::bail;
use tokio::time::Instant;

/// How often a step that tells nobody when it is done is looked at, while a person waits.
const LOOK: Duration = Duration::from_millis(100);

/// The steps of a start.
#[derive(Debug)]
pub(super) struct Progress {
    begun: Instant,
}

impl Progress {
    pub(super) fn start() -> Self {
        Self { begun: Instant::now() }
    }

    /// Says that a step is done.
    pub(super) fn step(&self, name: &str, detail: &str) {
        let seconds = self.begun.elapsed().as_secs_f64();
        println!("{seconds:6.1} s  {name:<14} {detail}");
    }

    /// Waits until `done` gives a detail to print.
    pub(super) fn wait(&self, limit: Duration, name: &str, done: impl Fn() -> Option<String>) -> anyhow::Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(detail) = done() {
                self.step(name, &detail);
                return Ok(());
            }
            if Instant::now() >= deadline {
                bail!("{name}: not there after {} s", limit.as_secs());
            }
            pause(LOOK);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this command has no event loop; a person waits at a terminal")]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}
