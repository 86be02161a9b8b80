//! Ended Jobs go when their time is up.

use copepod_client::resources::JOBS;
use copepod_client::{DeleteOptions, ObjectKey, Outcome, Propagation, WorkQueue};
use copepod_sys::clock;
use jiff::{SignedDuration, Timestamp};

use crate::context::{Context, SyncResult, enqueue};
use crate::step::{Step, execute_all};
use crate::views::Job;

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue = WorkQueue::new();
    enqueue(&context.caches.jobs, &queue);
    context.work(&queue, 1, sync);
}

/// When the job has to go.
fn due(job: &Job) -> Option<Timestamp> {
    let ttl = job.spec.ttl_seconds_after_finished?;
    let ended =
        |c: &&crate::views::Condition| matches!(&*c.r#type, "Complete" | "Failed") && c.status == "True";
    let at = job.status.conditions.iter().find(ended)?.last_transition_time?;
    Some(at + SignedDuration::from_secs(ttl))
}

async fn sync(context: Context, key: ObjectKey) -> SyncResult {
    let Some(job) = context.caches.jobs.get_key(&key).filter(|j| !j.metadata.deleting()) else {
        return Ok(Outcome::Done);
    };
    let Some(due) = due(&job) else { return Ok(Outcome::Done) };
    let wait = due.duration_since(clock::now());
    if wait > SignedDuration::ZERO {
        return Ok(Outcome::After(wait.unsigned_abs()));
    }
    let options = DeleteOptions::uid(&job.metadata.uid).propagation(Propagation::Foreground);
    let step = Step::Delete { resource: JOBS, key, uid: job.metadata.uid.clone(), options };
    execute_all(&context, vec![step]).await.map(|()| Outcome::Done)
}
