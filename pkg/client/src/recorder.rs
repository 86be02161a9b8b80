//! Events: what happened to an object, for people. Repetitions are counted, floods are cut off, and nobody waits.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use copepod_sys::clock;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::lease::micro;
use crate::resources::{EVENTS, EVENTS_V1};
use crate::{Client, ClientError, Meta, Patch, ResourceRef, Result};

/// Events that may wait to be written; more are dropped.
const WAITING: usize = 1000;
/// Remembered events; the memory is emptied when it is full, which only costs a new object for the next repetition.
const REMEMBERED: usize = 4096;
/// Upstream's limits of one source about one object: a burst, then one every five minutes.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);
/// After so many different messages with one reason within the interval, they are counted as one.
const SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// Normal or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl EventKind {
    /// As it travels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Which object an event is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// `apiVersion` of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects, whose events go to `default`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Revision the event speaks of.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Part of the object, such as `spec.containers{web}`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

impl ObjectRef {
    /// The object of `resource` that `meta` belongs to.
    #[must_use]
    pub fn of(resource: &ResourceRef, meta: &Meta) -> Self {
        Self {
            api_version: resource.api_version(),
            kind: resource.kind.to_string(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            field_path: String::new(),
        }
    }

    /// The same about a part of the object.
    #[must_use]
    pub fn field(mut self, path: impl Into<String>) -> Self {
        self.field_path = path.into();
        self
    }
}

#[derive(Debug)]
struct Note {
    object: ObjectRef,
    kind: EventKind,
    reason: String,
    action: String,
    message: String,
    at: Timestamp,
}

/// Writes events in the name of one component; clones share the queue.
#[derive(Debug, Clone)]
pub struct Recorder {
    sender: mpsc::Sender<Note>,
}

impl Recorder {
    /// A recorder of core/v1 events. `host` is the node's name, empty for none.
    #[must_use]
    pub fn new(client: &Client, component: &str, host: &str) -> Self {
        Self::spawn(client, component, host, Form::Core)
    }

    /// A recorder of events.k8s.io/v1 events, as the scheduler writes them.
    #[must_use]
    pub fn events_v1(client: &Client, component: &str, instance: &str) -> Self {
        Self::spawn(client, component, instance, Form::V1)
    }

    fn spawn(client: &Client, component: &str, host: &str, form: Form) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        let writer = Writer {
            client: client.clone(),
            component: component.to_owned(),
            host: host.to_owned(),
            form,
            known: HashMap::new(),
            budgets: HashMap::new(),
            similar: HashMap::new(),
        };
        copepod_supervisor::spawn("events", writer.run(receiver));
        Self { sender }
    }

    /// Notes an event; it is written in the background.
    pub fn event(&self, object: ObjectRef, kind: EventKind, reason: &str, message: impl Into<String>) {
        self.action(object, kind, reason, "", message);
    }

    /// The same with the action that was taken (events.k8s.io).
    pub fn action(
        &self,
        object: ObjectRef,
        kind: EventKind,
        reason: &str,
        action: &str,
        message: impl Into<String>,
    ) {
        let note = Note {
            object,
            kind,
            reason: reason.to_owned(),
            action: action.to_owned(),
            message: message.into(),
            at: clock::now(),
        };
        if self.sender.try_send(note).is_err() {
            tracing::debug!(reason, "event dropped: the queue is full or its writer has ended");
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Core,
    V1,
}

type NoteKey = (ObjectRef, EventKind, String, String);

struct Written {
    name: String,
    count: u32,
}

struct Writer {
    client: Client,
    component: String,
    host: String,
    form: Form,
    known: HashMap<NoteKey, Written>,
    budgets: HashMap<String, (f64, Instant)>,
    /// Different messages of one reason, and since when they are counted.
    similar: HashMap<(ObjectRef, String), (HashSet<String>, Instant)>,
}

impl Writer {
    async fn run(mut self, mut notes: mpsc::Receiver<Note>) {
        while let Some(mut note) = notes.recv().await {
            if self.known.len() > REMEMBERED {
                self.known.clear();
                self.budgets.clear();
                self.similar.clear();
            }
            if !self.afford(&note) {
                continue;
            }
            self.fold(&mut note);
            for _ in 0..3 {
                match self.write(&note).await {
                    // A refusal will not change; without an answer the server may only be restarting.
                    Err(ClientError::Api(error)) => {
                        tracing::debug!(reason = note.reason, %error, "event refused");
                        break;
                    }
                    Err(error) => {
                        tracing::debug!(error = crate::chain(&error), "event not written yet");
                        tokio::time::sleep(Duration::from_secs(2)).await;
                    }
                    Ok(()) => break,
                }
            }
        }
    }

    /// Takes from the object's budget; `false` when it is used up.
    fn afford(&mut self, note: &Note) -> bool {
        let now = Instant::now();
        let (left, at) = self.budgets.entry(note.object.uid.clone()).or_insert((BURST, now));
        let refill = now.duration_since(*at).as_secs_f64() / REFILL.as_secs_f64();
        *left = (*left + refill).min(BURST);
        *at = now;
        let enough = *left >= 1.0;
        if enough {
            *left -= 1.0;
        }
        enough
    }

    /// Many messages with one reason become one.
    fn fold(&mut self, note: &mut Note) {
        let key = (ObjectRef { resource_version: String::new(), ..note.object.clone() }, note.reason.clone());
        let now = Instant::now();
        let (messages, since) = self.similar.entry(key).or_insert_with(|| (HashSet::new(), now));
        if now.duration_since(*since) > SIMILAR_WITHIN {
            messages.clear();
            *since = now;
        }
        // A repeated message is counted by its own event and is nothing new.
        if messages.len() < SIMILAR {
            messages.insert(note.message.clone());
        }
        if messages.len() >= SIMILAR {
            note.message = format!("(combined from similar events): {}", note.message);
        }
    }

    async fn write(&mut self, note: &Note) -> Result<()> {
        let object = ObjectRef { resource_version: String::new(), ..note.object.clone() };
        let combined = note.message.starts_with("(combined");
        let text = if combined { String::new() } else { note.message.clone() };
        let key = (object, note.kind, note.reason.clone(), text);
        let namespace = if note.object.namespace.is_empty() { "default" } else { &note.object.namespace };
        let resource = if self.form == Form::Core { &EVENTS } else { &EVENTS_V1 };
        if let Some(written) = self.known.get_mut(&key) {
            let count = written.count + 1;
            let patch = Patch::Merge(self.form.repeated(note, count));
            match self.client.patch::<Value>(&resource.object(namespace, &written.name), &patch).await {
                Ok(_) => {
                    written.count = count;
                    return Ok(());
                }
                // It has expired: start again.
                Err(error) if error.not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let nanos = note.at.as_nanosecond();
        let name = format!("{}.{nanos:x}", note.object.name);
        let body = self.form.body(note, namespace, &name, (&self.component, &self.host));
        self.client.create::<Value>(&resource.collection(namespace), &body).await?;
        self.known.insert(key, Written { name, count: 1 });
        Ok(())
    }
}

impl Form {
    fn body(self, note: &Note, namespace: &str, name: &str, source: (&str, &str)) -> Value {
        let metadata = json!({"name": name, "namespace": namespace});
        let (component, host) = source;
        // Upstream's aggregated events name their source, but no reporter.
        let folded = note.message.starts_with("(combined");
        let (reporter, instance) = if folded { ("", "") } else { source };
        match self {
            Self::Core => json!({
                "apiVersion": "v1", "kind": "Event", "metadata": metadata,
                "involvedObject": note.object, "reason": note.reason, "message": note.message,
                "type": note.kind.as_str(), "count": 1,
                "firstTimestamp": seconds(note.at), "lastTimestamp": seconds(note.at),
                "source": {"component": component, "host": host},
                "reportingComponent": reporter, "reportingInstance": instance,
            }),
            Self::V1 => json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": metadata,
                "regarding": note.object, "reason": note.reason, "note": note.message,
                "type": note.kind.as_str(), "action": note.action, "eventTime": micro(note.at),
                "reportingController": component, "reportingInstance": host,
            }),
        }
    }

    fn repeated(self, note: &Note, count: u32) -> Value {
        match self {
            Self::Core => json!({
                "count": count, "lastTimestamp": seconds(note.at), "message": note.message,
            }),
            Self::V1 => json!({"series": {"count": count, "lastObservedTime": micro(note.at)}}),
        }
    }
}

fn seconds(at: Timestamp) -> String {
    format!("{at:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientConfig;

    fn writer() -> Writer {
        Writer {
            client: Client::new(&ClientConfig::new("http://127.0.0.1:1")).unwrap(),
            component: "test".to_owned(),
            host: String::new(),
            form: Form::Core,
            known: HashMap::new(),
            budgets: HashMap::new(),
            similar: HashMap::new(),
        }
    }

    fn note(message: &str) -> Note {
        Note {
            object: ObjectRef { uid: "u".to_owned(), ..ObjectRef::default() },
            kind: EventKind::Normal,
            reason: "R".to_owned(),
            action: String::new(),
            message: message.to_owned(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_different_messages_become_one_but_repetitions_do_not() {
        let mut writer = writer();
        let mut fold = |message: &str| {
            let mut note = note(message);
            writer.fold(&mut note);
            note.message
        };
        for _ in 0..20 {
            assert_eq!(fold("same"), "same");
        }
        for n in 0..8 {
            assert!(!fold(&format!("other {n}")).starts_with("(combined"));
        }
        assert_eq!(fold("last straw"), "(combined from similar events): last straw");
        tokio::time::advance(SIMILAR_WITHIN + Duration::from_secs(1)).await;
        assert_eq!(fold("later"), "later");
    }

    #[tokio::test(start_paused = true)]
    async fn floods_are_cut_off_and_budgets_refill() {
        let mut writer = writer();
        let passed = (0..100).filter(|_| writer.afford(&note("m"))).count();
        assert_eq!(passed, 25);
        tokio::time::advance(REFILL).await;
        assert!(writer.afford(&note("m")) && !writer.afford(&note("m")));
    }
}
