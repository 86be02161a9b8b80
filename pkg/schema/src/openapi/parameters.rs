//! Parameters of requests: names, types, and what they are for as far as that is one sentence.

use serde_json::{Value, json};

use super::Dialect;

/// A parameter in the path or the query.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Parameter {
    name: &'static str,
    /// Else in the path; of two with one name the path's comes first.
    in_query: bool,
    type_: &'static str,
    text: String,
}

const fn query(name: &'static str, type_: &'static str) -> (&'static str, &'static str) {
    (name, type_)
}

type Query = (&'static str, &'static str);

/// Of lists; those that a deletion of a collection does not have come last.
const LIST: [Query; 11] = [
    query("continue", "string"),
    query("fieldSelector", "string"),
    query("labelSelector", "string"),
    query("limit", "integer"),
    query("resourceVersion", "string"),
    query("resourceVersionMatch", "string"),
    query("sendInitialEvents", "boolean"),
    query("shardSelector", "string"),
    query("timeoutSeconds", "integer"),
    query("allowWatchBookmarks", "boolean"),
    query("watch", "boolean"),
];
/// How many of [`LIST`] a deletion of a collection has.
const OF_COLLECTION: usize = 9;
const WRITE: [Query; 3] =
    [query("dryRun", "string"), query("fieldManager", "string"), query("fieldValidation", "string")];
const DELETE: [Query; 5] = [
    query("dryRun", "string"),
    query("gracePeriodSeconds", "integer"),
    query("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    query("orphanDependents", "boolean"),
    query("propagationPolicy", "string"),
];
const STREAMS: [Query; 5] = [
    query("container", "string"),
    query("stderr", "boolean"),
    query("stdin", "boolean"),
    query("stdout", "boolean"),
    query("tty", "boolean"),
];
const LOG: [Query; 9] = [
    query("container", "string"),
    query("follow", "boolean"),
    query("insecureSkipTLSVerifyBackend", "boolean"),
    query("limitBytes", "integer"),
    query("previous", "boolean"),
    query("sinceSeconds", "integer"),
    query("stream", "string"),
    query("tailLines", "integer"),
    query("timestamps", "boolean"),
];

/// What a parameter is for, where upstream says it in a sentence.
fn text(name: &str) -> &'static str {
    match name {
        "pretty" => {
            "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a \
             browser or command-line HTTP tool (curl and wget)."
        }
        "namespace" => "object name and auth scope, such as for teams and projects",
        "fieldSelector" => {
            "A selector to restrict the list of returned objects by their fields. Defaults to everything."
        }
        "labelSelector" => {
            "A selector to restrict the list of returned objects by their labels. Defaults to everything."
        }
        "timeoutSeconds" => {
            "Timeout for the list/watch call. This limits the duration of the call, regardless of any activity or \
             inactivity."
        }
        "watch" => {
            "Watch for changes to the described resources and return them as a stream of add, update, and remove \
             notifications. Specify resourceVersion."
        }
        _ => "",
    }
}

fn named(parameters: &[Query]) -> Vec<Parameter> {
    parameters
        .iter()
        .map(|(name, type_)| Parameter { name, in_query: true, type_, text: text(name).to_owned() })
        .collect()
}

pub(super) fn pretty() -> Parameter {
    Parameter { name: "pretty", in_query: true, type_: "string", text: text("pretty").to_owned() }
}

pub(super) fn list() -> Vec<Parameter> {
    named(&LIST)
}

pub(super) fn write() -> Vec<Parameter> {
    named(&WRITE)
}

pub(super) fn patch() -> Vec<Parameter> {
    let mut all = write();
    all.extend(named(&[query("force", "boolean")]));
    all
}

pub(super) fn delete() -> Vec<Parameter> {
    named(&DELETE)
}

pub(super) fn delete_collection() -> Vec<Parameter> {
    let mut all = named(&LIST[..OF_COLLECTION]);
    all.extend(delete());
    all
}

pub(super) fn revision() -> Vec<Parameter> {
    named(&[query("resourceVersion", "string")])
}

/// Those of the options that a connection or a log is asked for with.
pub(super) fn options(kind: &str) -> Vec<Parameter> {
    match kind {
        "PodAttachOptions" => named(&STREAMS),
        "PodExecOptions" => [named(&[query("command", "string")]), named(&STREAMS)].concat(),
        "PodPortForwardOptions" => named(&[query("ports", "integer")]),
        "PodLogOptions" => named(&LOG),
        _ => named(&[query("path", "string")]),
    }
}

/// Those in a path: its words in braces.
pub(super) fn in_path(path: &str, kind: &str) -> Vec<Parameter> {
    let word = |name, text| Parameter { name, in_query: false, type_: "string", text };
    let mut all = Vec::new();
    if path.contains("{name}") {
        all.push(word("name", format!("name of the {kind}")));
    }
    if path.contains("{namespace}") {
        all.push(word("namespace", text("namespace").to_owned()));
    }
    if path.ends_with("{path}") {
        all.push(word("path", "path to the resource".to_owned()));
    }
    all
}

impl Parameter {
    pub(super) fn render(&self, dialect: Dialect) -> Value {
        let place = if self.in_query { "query" } else { "path" };
        let mut out = json!({"in": place, "name": self.name});
        if let Value::Object(map) = &mut out {
            let schema = json!({"type": self.type_, "uniqueItems": true});
            match (dialect, schema) {
                (Dialect::V2, Value::Object(schema)) => map.extend(schema),
                (_, schema) => {
                    map.insert("schema".to_owned(), schema);
                }
            }
            if !self.in_query {
                map.insert("required".to_owned(), true.into());
            }
            if !self.text.is_empty() {
                map.insert("description".to_owned(), self.text.clone().into());
            }
        }
        out
    }
}

/// Takes what all operations of a path have in common out of them: it is said once, of the path.
pub(super) fn common(operations: &mut [&mut Vec<Parameter>]) -> Vec<Parameter> {
    let Some((first, others)) = operations.split_first() else { return Vec::new() };
    let mut shared: Vec<Parameter> =
        first.iter().filter(|one| others.iter().all(|other| other.contains(one))).cloned().collect();
    for parameters in operations {
        parameters.retain(|one| !shared.contains(one));
        parameters.sort();
    }
    shared.sort();
    shared
}
