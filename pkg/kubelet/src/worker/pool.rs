//! The tasks around [`step`](super::step).

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Action, Event, Phase, PodState, step};
use crate::pod::PodExt;
use crate::ports::BoxFuture;
use crate::types::{PodRef, PodUid};

/// What a worker calls; each is cancelled by dropping its future.
pub trait PodSyncer: Send + Sync + 'static {
    /// Brings the pod closer to its spec: whether it is over, and when to look again.
    fn sync(&self, pod: PodRef) -> BoxFuture<'_, (bool, Duration)>;
    /// Stops the pod; true when all its containers are gone.
    fn terminate(&self, pod: PodRef, grace: Option<i64>) -> BoxFuture<'_, bool>;
    /// Frees what the pod used; `removed` when no source names it any more. True when done.
    fn free(&self, pod: PodRef, removed: bool) -> BoxFuture<'_, bool>;
    /// The worker is done.
    fn done(&self, pod: &PodRef);
}

/// What others may know of a worker.
#[derive(Debug, Clone)]
pub struct WorkerView {
    /// Where it is.
    pub phase: Phase,
    /// The newest pod.
    pub pod: PodRef,
}

/// Number of events that no activity reports.
const OUTSIDE: u64 = 0;

struct Worker {
    events: mpsc::UnboundedSender<(u64, Event)>,
    view: Arc<Mutex<WorkerView>>,
    removed: Arc<std::sync::atomic::AtomicBool>,
    /// The pod to start anew with when this one is done: its manifest came back meanwhile.
    restart: Option<PodRef>,
}

/// All workers.
pub struct PodWorkers {
    syncer: Arc<dyn PodSyncer>,
    workers: Mutex<HashMap<PodUid, Worker>>,
}

impl std::fmt::Debug for PodWorkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PodWorkers").field("workers", &self.workers.lock().len()).finish_non_exhaustive()
    }
}

impl PodWorkers {
    /// No workers yet.
    #[must_use]
    pub fn new(syncer: Arc<dyn PodSyncer>) -> Arc<Self> {
        Arc::new(Self { syncer, workers: Mutex::default() })
    }

    /// A source names `pod`.
    pub fn set(self: &Arc<Self>, pod: PodRef) {
        use std::sync::atomic::Ordering;
        let mut workers = self.workers.lock();
        let uid = pod.uid().to_owned();
        if let Some(worker) = workers.get_mut(&uid) {
            let ending = worker.view.lock().phase >= Phase::Terminating;
            if ending && pod.is_static() {
                // The manifest is back before its pod was gone: start anew afterwards.
                worker.restart = Some(pod);
                return;
            }
            worker.removed.store(false, Ordering::Relaxed);
            send(worker, Event::Set(pod));
            return;
        }
        let wait = pod.is_static() && workers.values().any(|w| is_rival(w, &pod));
        self.spawn(&mut workers, uid, pod, wait);
    }

    fn spawn(self: &Arc<Self>, workers: &mut HashMap<PodUid, Worker>, uid: PodUid, pod: PodRef, wait: bool) {
        let (events, receive) = mpsc::unbounded_channel();
        let phase = if wait { Phase::Wait } else { Phase::Sync };
        let view = Arc::new(Mutex::new(WorkerView { phase, pod: pod.clone() }));
        let removed = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let task = Task {
            pool: self.clone(),
            view: view.clone(),
            removed: removed.clone(),
            events: events.clone(),
            running: None,
            activity: OUTSIDE,
        };
        let state = PodState::new(pod.clone(), wait);
        let worker = Worker { events, view, removed, restart: None };
        send(&worker, Event::Set(pod));
        workers.insert(uid, worker);
        copepod_supervisor::spawn("pod worker", task.run(state, receive));
    }

    /// No source names `uid` any more.
    pub fn remove(&self, uid: &str) {
        if let Some(worker) = self.workers.lock().get_mut(uid) {
            worker.restart = None;
            worker.removed.store(true, std::sync::atomic::Ordering::Relaxed);
            send(worker, Event::Kill { grace: None });
        }
    }

    /// Ends a pod with its own or a given grace period; it stays known.
    pub fn kill(&self, uid: &str, grace: Option<i64>) {
        if let Some(worker) = self.workers.lock().get(uid) {
            send(worker, Event::Kill { grace });
        }
    }

    /// Starts a worker that only stops what the runtime still holds of a pod nobody names.
    pub fn remove_orphan(self: &Arc<Self>, pod: PodRef) {
        let uid = pod.uid().to_owned();
        let mut workers = self.workers.lock();
        if !workers.contains_key(&uid) {
            self.spawn(&mut workers, uid.clone(), pod, true);
            drop(workers);
            self.remove(&uid);
        }
    }

    /// Something about `uid` changed; false when there is no such worker.
    pub fn wake(&self, uid: &str) -> bool {
        let workers = self.workers.lock();
        workers.get(uid).map(|w| send(w, Event::Wake)).is_some()
    }

    /// Wakes every worker (the runtime came back).
    pub fn wake_all(&self) {
        for worker in self.workers.lock().values() {
            send(worker, Event::Wake);
        }
    }

    /// One worker.
    #[must_use]
    pub fn view(&self, uid: &str) -> Option<WorkerView> {
        self.workers.lock().get(uid).map(|w| w.view.lock().clone())
    }

    /// All workers.
    #[must_use]
    pub fn views(&self) -> Vec<WorkerView> {
        self.workers.lock().values().map(|w| w.view.lock().clone()).collect()
    }

    /// Called by a task that reached [`Phase::Done`].
    fn done(self: &Arc<Self>, pod: &PodRef, removed: bool) {
        let mut workers = self.workers.lock();
        let restart = workers.get_mut(pod.uid()).and_then(|w| w.restart.take());
        if removed || restart.is_some() {
            workers.remove(pod.uid());
        }
        for worker in workers.values().filter(|w| is_waiting_for(w, pod)) {
            send(worker, Event::Allowed);
        }
        if let Some(pod) = restart {
            self.spawn(&mut workers, pod.uid().to_owned(), pod, false);
        }
        drop(workers);
        self.syncer.done(pod);
    }
}

fn send(worker: &Worker, event: Event) {
    // The task ends only with its worker's removal; an event to a worker that just went is stale.
    if worker.events.send((OUTSIDE, event)).is_err() {
        tracing::debug!("event for a pod worker that has ended");
    }
}

/// Whether `worker` holds a static pod of the same full name that has not gone yet.
fn is_rival(worker: &Worker, pod: &PodRef) -> bool {
    let view = worker.view.lock();
    view.pod.is_static() && view.phase < Phase::Done && view.pod.full_name() == pod.full_name()
}

fn is_waiting_for(worker: &Worker, gone: &PodRef) -> bool {
    let view = worker.view.lock();
    view.phase == Phase::Wait && view.pod.full_name() == gone.full_name()
}

struct Task {
    pool: Arc<PodWorkers>,
    view: Arc<Mutex<WorkerView>>,
    removed: Arc<std::sync::atomic::AtomicBool>,
    events: mpsc::UnboundedSender<(u64, Event)>,
    running: Option<CancellationToken>,
    /// Number of the newest activity: reports of older ones are stale.
    activity: u64,
}

impl Task {
    async fn run(mut self, mut state: PodState, mut receive: mpsc::UnboundedReceiver<(u64, Event)>) {
        loop {
            let wake_at = state.wake_at;
            let timer = async {
                match wake_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                event = receive.recv() => event,
                () = timer => Some((OUTSIDE, Event::Wake)),
            };
            let Some((number, event)) = event else { return };
            if number != OUTSIDE && number != self.activity {
                continue;
            }
            let (next, actions) = step(state, event, Instant::now());
            state = next;
            *self.view.lock() = WorkerView { phase: state.phase, pod: state.pod.clone() };
            for action in actions {
                self.apply(action);
            }
            if state.phase == Phase::Done && !state.busy {
                let removed = self.removed.load(std::sync::atomic::Ordering::Relaxed);
                self.pool.done(&state.pod, removed);
                if removed || self.is_replaced() {
                    return;
                }
            }
        }
    }

    fn is_replaced(&self) -> bool {
        let uid = self.view.lock().pod.uid().to_owned();
        self.pool.workers.lock().get(&uid).is_none_or(|w| !Arc::ptr_eq(&w.view, &self.view))
    }

    fn apply(&mut self, action: Action) {
        let syncer = self.pool.syncer.clone();
        match action {
            Action::Cancel => {
                if let Some(token) = self.running.take() {
                    token.cancel();
                }
            }
            Action::Sync(pod) => self.start(async move {
                let (terminal, again) = syncer.sync(pod).await;
                Event::Synced { terminal, again }
            }),
            Action::Terminate(pod, grace) => {
                self.start(async move { Event::Stopped { gone: syncer.terminate(pod, grace).await } });
            }
            Action::Free(pod) => {
                let removed = self.removed.load(std::sync::atomic::Ordering::Relaxed);
                self.start(async move { Event::Freed { done: syncer.free(pod, removed).await } });
            }
        }
    }

    fn start(&mut self, activity: impl Future<Output = Event> + Send + 'static) {
        let token = CancellationToken::new();
        self.running = Some(token.clone());
        self.activity += 1;
        let number = self.activity;
        let events = self.events.clone();
        copepod_supervisor::spawn("pod activity", async move {
            tokio::select! {
                // A cancelled activity reports nothing: its successor does.
                biased;
                () = token.cancelled() => {}
                event = activity => {
                    if events.send((number, event)).is_err() {
                        tracing::debug!("pod worker ended before its activity");
                    }
                }
            }
        });
    }
}
