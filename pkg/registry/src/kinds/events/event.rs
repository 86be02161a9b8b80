//! Events, as `events.k8s.io` shows them.

use copepod_api::FieldPath;

use crate::kinds::at::At;
use crate::kinds::core::event::{Names, validate};
use crate::kinds::kind::Kind;

const NEW: Names = Names { object: "regarding", controller: "reportingController", message: "note" };

/// What does not change: the core's names, which errors use, and those of this form.
const FIXED: [(&str, &str); 13] = [
    ("involvedObject", "regarding"),
    ("reason", "reason"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

/// Events.
pub(crate) static KIND: Kind = Kind {
    create_on_update: true,
    validate: |event| {
        validate(event, &NEW);
        series(event);
        event.get("eventTime").need();
        let kind = event.get("type");
        if !matches!(kind.str(), "Normal" | "Warning") {
            kind.invalid_as("", format!("has invalid value: {}", kind.str()));
        }
        let source = event.get("deprecatedSource");
        let set = [
            ("firstTimestamp", event.get("deprecatedFirstTimestamp").present()),
            ("lastTimestamp", event.get("deprecatedLastTimestamp").present()),
            ("count", event.get("deprecatedCount").int().unwrap_or(0) != 0),
            ("source", !source.get("component").is_empty() || !source.get("host").is_empty()),
        ];
        for (field, _) in set.into_iter().filter(|(_, set)| *set) {
            event.invalid_at(field, "", "needs to be unset");
        }
    },
    validate_update: Some(|new, old| {
        validate(new, &NEW);
        if new.get("series").value() != old.get("series").value() {
            series(new);
        }
        for (name, field) in FIXED {
            new.get(field).named(FieldPath::new(name)).immutable(&old.get(field));
        }
    }),
    ..Kind::PLAIN
};

/// A series that is there has been seen at least twice.
fn series(event: &At<'_>) {
    let series = event.get("series");
    if !series.present() {
        return;
    }
    if series.get("count").int().unwrap_or(0) < 2 {
        series.invalid_at("series.count", "", "should be at least 2");
    }
    series.get("lastObservedTime").need();
}
