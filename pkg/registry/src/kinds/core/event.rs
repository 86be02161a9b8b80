//! Events, as the core group shows them.

use std::borrow::Cow;

use copepod_api::names;
use serde_json::Value;

use crate::kinds::at::At;
use crate::kinds::kind::Kind;

/// Events.
pub(crate) static KIND: Kind = Kind {
    create_on_update: true,
    validate: |event| validate(event, &OLD),
    // Through the core group even newer events may change.
    validate_update: Some(|new, _| validate(new, &OLD)),
    field: source,
    name: names::path_segment,
    ..Kind::PLAIN
};

/// What the two forms of an event call the same things. Errors name most of them as the core's form does, whichever is
/// sent.
#[derive(Debug)]
pub(crate) struct Names {
    /// The object an event is about.
    pub(crate) object: &'static str,
    /// Who reports, in errors too.
    pub(crate) controller: &'static str,
    /// The text.
    pub(crate) message: &'static str,
}

const OLD: Names = Names { object: "involvedObject", controller: "reportingComponent", message: "message" };

/// `source` falls back to who reports.
fn source<'a>(event: &'a Value, field: &str) -> Option<Cow<'a, str>> {
    if field != "source" {
        return None;
    }
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).filter(|t| !t.is_empty());
    text("/source/component").or_else(|| text("/reportingComponent")).map(Cow::Borrowed)
}

/// Events with an `eventTime` are of the newer kind and must be complete; others are taken as they are.
pub(crate) fn validate(event: &At<'_>, names: &Names) {
    let of = event.get(names.object).get("namespace");
    let namespace = event.at("metadata.namespace").str();
    let newer = event.get("eventTime").present();
    let fits = match (of.str(), newer) {
        ("", false) => matches!(namespace, "" | "default"),
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (of, false) => of == namespace,
        (_, true) => true,
    };
    if !fits {
        of.invalid_at("involvedObject.namespace", of.str(), "does not match event.namespace");
    }
    if newer {
        complete(event, names);
    }
}

fn complete(event: &At<'_>, terms: &Names) {
    let controller = event.get(terms.controller);
    controller.need();
    names::qualified_name(controller.str())
        .into_iter()
        .for_each(|error| controller.invalid_as(controller.str(), error));
    for (field, max) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let at = event.get(field);
        at.need();
        if at.str().len() > max {
            at.invalid_as("", format!("can have at most {max} characters"));
        }
    }
    let message = event.get(terms.message);
    if message.str().len() > 1024 {
        message.invalid_at("message", "", "can have at most 1024 characters");
    }
}
