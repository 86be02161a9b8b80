//! Pod workers: one per UID. The decision is [`step`], pure; the task around it is thin.
//!
//! Phases only move forward: wait (a static pod whose predecessor of the same name still stops),
//! sync, terminating, terminated, done. There is one activity at a time; news that arrive meanwhile
//! are kept as "look again", so the latest wins and nothing queues up. A kill is never
//! overwritten by a later update, and a shorter grace period restarts the termination.

mod pool;

use std::time::Duration;

use tokio::time::Instant;

use crate::pod::PodExt;
use crate::types::PodRef;

pub use pool::{PodSyncer, PodWorkers, WorkerView};

/// Where a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not allowed to start yet.
    Wait,
    /// Being kept as its spec says.
    Sync,
    /// Being stopped.
    Terminating,
    /// Stopped; what it used is being freed.
    Terminated,
    /// Nothing left to do.
    Done,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A source names this pod (new or changed).
    Set(PodRef),
    /// It may start: no other pod of its name is left.
    Allowed,
    /// It has to go: removed, evicted or orphaned. Grace in seconds overrides the pod's own.
    Kill {
        /// Grace period override.
        grace: Option<i64>,
    },
    /// Something about it changed in the runtime or a probe, or its time has come.
    Wake,
    /// A sync ended.
    Synced {
        /// Nothing will run any more.
        terminal: bool,
        /// When to look again.
        again: Duration,
    },
    /// A termination ended.
    Stopped {
        /// All containers are gone.
        gone: bool,
    },
    /// Freeing ended.
    Freed {
        /// All is free.
        done: bool,
    },
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Cancel the activity that runs.
    Cancel,
    /// Start a sync.
    Sync(PodRef),
    /// Start stopping it.
    Terminate(PodRef, Option<i64>),
    /// Start freeing what it used.
    Free(PodRef),
}

/// A worker's state.
#[derive(Debug, Clone)]
pub struct PodState {
    /// Where it is.
    pub phase: Phase,
    /// The newest pod.
    pub pod: PodRef,
    /// An activity runs.
    pub busy: bool,
    /// Look again when it ends.
    pub again: bool,
    /// Grace period in force while terminating.
    pub grace: Option<i64>,
    /// When to wake by itself.
    pub wake_at: Option<Instant>,
    /// Whether a kill was asked for by anything but the pod's own deletion.
    pub killed: bool,
}

/// Time until a failed stop or free is tried again.
const RETRY: Duration = Duration::from_secs(2);

impl PodState {
    /// A worker for `pod`; `wait` when another pod of its name is still there.
    #[must_use]
    pub fn new(pod: PodRef, wait: bool) -> Self {
        let phase = if wait { Phase::Wait } else { Phase::Sync };
        Self { phase, pod, busy: false, again: false, grace: None, wake_at: None, killed: false }
    }

    fn terminate(mut self, grace: Option<i64>, now: Instant) -> (Self, Vec<Action>) {
        let shorter = match (self.grace, grace) {
            (Some(old), Some(new)) => new < old,
            (None, Some(_)) => true,
            _ => false,
        };
        let first = self.phase < Phase::Terminating;
        let again = shorter && self.phase == Phase::Terminating;
        if !(first || again) {
            return (self, Vec::new());
        }
        // A pod that waited has nothing to stop, but its worker still goes the whole way.
        self.phase = Phase::Terminating;
        if shorter || first {
            self.grace = grace.or(self.grace);
        }
        let mut actions = Vec::new();
        if self.busy {
            actions.push(Action::Cancel);
        }
        self.busy = false;
        let (state, more) = self.start(now);
        actions.extend(more);
        (state, actions)
    }

    /// Starts the activity of the present phase, or notes that it has to run again.
    fn start(mut self, _now: Instant) -> (Self, Vec<Action>) {
        if self.busy {
            self.again = true;
            return (self, Vec::new());
        }
        let action = match self.phase {
            Phase::Wait | Phase::Done => return (self, Vec::new()),
            Phase::Sync => Action::Sync(self.pod.clone()),
            Phase::Terminating => Action::Terminate(self.pod.clone(), self.grace),
            Phase::Terminated => Action::Free(self.pod.clone()),
        };
        self.busy = true;
        self.again = false;
        self.wake_at = None;
        (self, vec![action])
    }

    fn finish(mut self, next: Phase, retry: Option<Duration>, now: Instant) -> (Self, Vec<Action>) {
        self.busy = false;
        let moved = next != self.phase;
        self.phase = next;
        if moved || self.again {
            return self.start(now);
        }
        self.wake_at = retry.map(|delay| now + delay);
        (self, Vec::new())
    }
}

/// Whether the API says that this pod's life is over.
fn is_over(pod: &PodRef) -> bool {
    !pod.is_static() && crate::status::phase::is_terminal(pod.phase())
}

/// The next state and what to do about it.
#[must_use]
pub fn step(mut state: PodState, event: Event, now: Instant) -> (PodState, Vec<Action>) {
    match event {
        Event::Set(pod) => {
            let deleted = pod.is_deleted();
            let grace = pod.metadata.deletion_grace_period_seconds;
            let over = is_over(&pod);
            state.pod = pod;
            match state.phase {
                Phase::Wait | Phase::Sync if deleted => state.terminate(grace, now),
                Phase::Wait | Phase::Sync if over => state.terminate(None, now),
                Phase::Terminating if deleted => state.terminate(grace, now),
                Phase::Sync => state.start(now),
                // Freeing again lets the API object go once its deletion was asked for.
                Phase::Terminated | Phase::Done if deleted => {
                    state.phase = Phase::Terminated;
                    state.start(now)
                }
                _ => (state, Vec::new()),
            }
        }
        Event::Allowed if state.phase == Phase::Wait => {
            state.phase = Phase::Sync;
            state.start(now)
        }
        Event::Allowed => (state, Vec::new()),
        Event::Kill { grace } => {
            state.killed = true;
            if state.phase == Phase::Done {
                state.phase = Phase::Terminated;
                return state.start(now);
            }
            state.terminate(grace, now)
        }
        Event::Wake => state.start(now),
        Event::Synced { terminal: true, .. } if state.phase == Phase::Sync => {
            state.finish(Phase::Terminating, None, now)
        }
        Event::Synced { again, .. } => {
            let phase = state.phase;
            state.finish(phase, Some(again), now)
        }
        Event::Stopped { gone } => {
            let next = if gone { Phase::Terminated } else { state.phase };
            state.finish(next, Some(RETRY), now)
        }
        Event::Freed { done } => {
            let next = if done { Phase::Done } else { state.phase };
            state.finish(next, Some(RETRY), now)
        }
    }
}

#[cfg(test)]
mod tests;
