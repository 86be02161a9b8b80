//! StorageVersionMigrations: every object of a resource is written once more, so that it is stored in the version of
//! today. One migration per resource runs at a time, the oldest first.
//!
//! A running migration notes a revision of the collection; what is newer than that has been written since and needs
//! nothing. A CustomResourceDefinition says meanwhile that it is being migrated, and afterwards keeps only the version
//! that is left.

mod definition;

use std::sync::Arc;
use std::time::Duration;

use copepod_client::resources::STORAGE_VERSION_MIGRATIONS;
use copepod_client::{
    ClientError, Informer, InformerConfig, List, ListOptions, Meta, ObjectKey, Outcome, Patch, WorkQueue,
};
use copepod_sys::clock;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context::{Context, SyncResult};
use crate::discovery::{Discovered, discover};
use crate::status::merge_difference;
use crate::step::{Step, execute_all};
use crate::views::{Condition, MetaOnly, holds, set_condition};

const RUNNING: &str = "MigrationRunning";
const FAILED: &str = "StorageVersionMigrationFailed";
const SUCCEEDED: &str = "StorageVersionMigrationSucceeded";
/// A custom resource may have been made a moment ago.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);
const RETRY: Duration = Duration::from_secs(2);
const NEEDED: [&str; 3] = ["update", "patch", "list"];

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Migration {
    metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Spec {
    resource: Resource,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Resource {
    group: String,
    resource: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Condition>,
    resource_version: String,
}

impl Migration {
    fn running(&self) -> bool {
        holds(&self.status.conditions, "Running")
    }

    fn ended(&self) -> bool {
        holds(&self.status.conditions, "Succeeded") || holds(&self.status.conditions, "Failed")
    }
}

/// What a migration needs next.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// Its turn has come.
    Begin,
    /// The collection's revision, or the work itself.
    Go,
    /// It is over and has to be tidied up.
    Finish,
    /// Nothing, or another one's end.
    Rest,
}

/// Starts the controller.
pub(crate) fn start(context: &Context) {
    let queue: WorkQueue<ObjectKey> = WorkQueue::new();
    let migrations: Informer<Migration> = Informer::new(InformerConfig::all(STORAGE_VERSION_MIGRATIONS));
    let (all, changed) = (migrations.clone(), queue.clone());
    migrations.on_change(move |key, delta| {
        changed.add(key.clone());
        // The end of one is the beginning of another.
        let same = |other: &&Arc<Migration>| other.spec.resource == delta.object().spec.resource;
        all.list().iter().filter(same).for_each(|other| changed.add(other.metadata.key()));
    });
    migrations.start(&context.reader, &context.shutdown);
    context.work(&queue, 1, move |context, key| {
        let migrations = migrations.clone();
        async move {
            migrations.synced().await;
            let Some(migration) = migrations.get_key(&key) else { return Ok(Outcome::Done) };
            match turn(&migration, &migrations.list()) {
                Turn::Rest => Ok(Outcome::Done),
                Turn::Begin => begin(&context, &migration).await,
                Turn::Go => go(&context, &migration).await,
                Turn::Finish => finish(&context, &migration).await,
            }
        }
    });
}

fn turn(migration: &Migration, all: &[Arc<Migration>]) -> Turn {
    match (migration.running(), migration.ended()) {
        (true, true) => Turn::Finish,
        (true, false) => Turn::Go,
        (false, true) => Turn::Rest,
        (false, false) => {
            let age = |m: &Migration| (m.metadata.creation_timestamp, m.metadata.name.clone());
            let before = |other: &&Arc<Migration>| {
                other.spec.resource == migration.spec.resource
                    && other.metadata.uid != migration.metadata.uid
                    && ((other.running() && !other.ended())
                        || (!other.running() && !other.ended() && age(other) < age(migration)))
            };
            if all.iter().any(|other| before(&other)) { Turn::Rest } else { Turn::Begin }
        }
    }
}

async fn begin(context: &Context, migration: &Migration) -> SyncResult {
    definition::begin(context, &migration.spec.resource, &migration.metadata.name).await?;
    write(context, migration, vec![Condition::new("Running", true, RUNNING, message(0, 0, None))], None).await
}

async fn finish(context: &Context, migration: &Migration) -> SyncResult {
    let success = holds(&migration.status.conditions, "Succeeded");
    definition::finish(context, &migration.spec.resource, success).await?;
    let mut over = Condition::new("Running", false, "MigrationCompleted", "Migration completed");
    over.observed_generation = Some(migration.metadata.generation);
    write(context, migration, vec![over], None).await
}

async fn go(context: &Context, migration: &Migration) -> SyncResult {
    let wanted = &migration.spec.resource;
    let (found, complete) = discover(&context.reader).await?;
    let served = found.iter().find(|d| {
        (&*d.resource.group, &*d.resource.plural) == (wanted.group.as_str(), wanted.resource.as_str())
    });
    let Some(served) = served else {
        let age = migration.metadata.creation_timestamp.map(|at| clock::now().duration_since(at));
        if !complete || age.is_some_and(|age| age < PATIENCE) {
            return Ok(Outcome::After(RETRY));
        }
        return fail(context, migration, "resource does not exist in discovery".to_owned()).await;
    };
    if !served.has(&NEEDED) {
        let r = &served.resource;
        let text = format!(
            "resource {:?} does not support discovery operations: [{}]",
            format!("{}, Resource={}", r.api_version(), r.plural),
            NEEDED.join(" ")
        );
        return fail(context, migration, text).await;
    }
    if migration.status.resource_version.is_empty() {
        let newest: List<MetaOnly> = context
            .client
            .list(&served.resource.collection(""), &ListOptions { limit: 1, ..ListOptions::default() })
            .await?;
        return write(context, migration, Vec::new(), Some(newest.metadata.resource_version)).await;
    }
    migrate(context, migration, served).await
}

async fn migrate(context: &Context, migration: &Migration, served: &Discovered) -> SyncResult {
    let resource = &served.resource;
    let all: List<MetaOnly> =
        context.client.list_all(&resource.collection(""), &ListOptions::default()).await?;
    let total = all.items.len();
    let limit = &migration.status.resource_version;
    let older = all.items.iter().map(|item| &item.metadata).filter(|m| !newer(&m.resource_version, limit));
    let older: Vec<&Meta> = older.collect();
    for (done, meta) in older.iter().enumerate() {
        let body = json!({
            "apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        });
        let target = resource.object(&meta.namespace, &meta.name);
        match context.client.patch::<Value>(&target, &Patch::Merge(body)).await {
            Ok(_) => {}
            // Written or gone since: in either case nothing of the old version is left.
            Err(error) if error.conflict() || error.not_found() => {}
            Err(error) => return stop(context, migration, error, (older.len() - done, total)).await,
        }
    }
    let running = Condition::new("Running", true, RUNNING, message(0, total, None));
    let succeeded = Condition::new("Succeeded", true, SUCCEEDED, "Migration completed");
    write(context, migration, vec![running, succeeded], None).await
}

/// An object could not be written: for good, or for now.
async fn stop(
    context: &Context,
    migration: &Migration,
    error: ClientError,
    (left, total): (usize, usize),
) -> SyncResult {
    let passing = error.api().is_none_or(|api| matches!(api.code(), 429 | 500 | 503 | 504));
    let running =
        Condition::new("Running", true, RUNNING, message(left, total, passing.then(|| error.to_string())));
    if passing {
        write(context, migration, vec![running], None).await?;
        return Err(error);
    }
    let text = format!("{left}/{total} not yet migrated. migration encountered unhandled error: {error}");
    write(context, migration, vec![running, Condition::new("Failed", true, FAILED, text)], None).await
}

async fn fail(context: &Context, migration: &Migration, why: String) -> SyncResult {
    write(context, migration, vec![Condition::new("Failed", true, FAILED, why)], None).await
}

/// Whether a revision is later than another; both are numbers.
fn newer(revision: &str, than: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    number(revision) > number(than)
}

fn message(left: usize, total: usize, passing: Option<String>) -> String {
    let progress = match (left, total) {
        (_, 0) => String::new(),
        (0, total) => format!(", {total} objects verified migrated"),
        (left, total) => format!(", {left}/{total} objects not yet migrated"),
    };
    let passing = passing.map_or(String::new(), |error| format!("; transient error: {error}"));
    format!("The migration is running{progress}{passing}")
}

async fn write(
    context: &Context,
    migration: &Migration,
    conditions: Vec<Condition>,
    revision: Option<String>,
) -> SyncResult {
    let step = plan(migration, conditions, revision, clock::now());
    execute_all(context, step.into_iter().collect()).await.map(|()| Outcome::Done)
}

fn plan(
    migration: &Migration,
    conditions: Vec<Condition>,
    revision: Option<String>,
    now: Timestamp,
) -> Option<Step> {
    let mut all = migration.status.conditions.clone();
    conditions.into_iter().for_each(|condition| set_condition(&mut all, condition, now));
    let old = json!({"conditions": migration.status.conditions});
    let mut new = json!({"conditions": all});
    if let Some(revision) = revision {
        new["resourceVersion"] = json!(revision);
    }
    let difference = merge_difference(&old, &new);
    let changed = difference.as_object().is_some_and(|d| !d.is_empty());
    changed.then(|| Step::status(&STORAGE_VERSION_MIGRATIONS, &migration.metadata, difference))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migration(name: &str, created: &str, conditions: &[&str]) -> Arc<Migration> {
        let conditions: Vec<_> = conditions.iter().map(|c| json!({"type": c, "status": "True"})).collect();
        let body = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": created},
            "spec": {"resource": {"resource": "widgets"}}, "status": {"conditions": conditions},
        });
        Arc::new(serde_json::from_value(body).unwrap())
    }

    #[test]
    fn one_at_a_time_and_the_oldest_first() {
        let first = migration("a", "2026-01-01T00:00:00Z", &[]);
        let second = migration("b", "2026-01-01T00:00:01Z", &[]);
        let all = [Arc::clone(&second), Arc::clone(&first)];
        assert_eq!((turn(&first, &all), turn(&second, &all)), (Turn::Begin, Turn::Rest));
        let running = migration("a", "2026-01-01T00:00:00Z", &["Running"]);
        let all = [Arc::clone(&second), Arc::clone(&running)];
        assert_eq!((turn(&running, &all), turn(&second, &all)), (Turn::Go, Turn::Rest));
        let over = migration("a", "2026-01-01T00:00:00Z", &["Running", "Succeeded"]);
        let all = [Arc::clone(&second), Arc::clone(&over)];
        assert_eq!((turn(&over, &all), turn(&second, &all)), (Turn::Finish, Turn::Begin));
    }

    #[test]
    fn progress_in_words() {
        assert_eq!(message(0, 0, None), "The migration is running");
        assert_eq!(message(2, 5, None), "The migration is running, 2/5 objects not yet migrated");
        assert_eq!(
            message(0, 5, Some("x".to_owned())),
            "The migration is running, 5 objects verified migrated; transient error: x"
        );
        assert!(newer("10", "9") && !newer("9", "9"));
    }
}
