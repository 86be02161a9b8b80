//! Events, as `events.k8s.io` shows them.

use crate::kinds::core::event::{Names, unchanged, validate};
use crate::kinds::kind::Kind;

const NEW: Names = Names { object: "regarding", controller: "reportingController", message: "note" };

/// Events.
pub(crate) static KIND: Kind = Kind {
    create_on_update: true,
    validate: |event| {
        event.get("eventTime").need();
        if event.get("eventTime").present() {
            let kind = event.get("type").str();
            let old = [
                ("firstTimestamp", "deprecatedFirstTimestamp"),
                ("lastTimestamp", "deprecatedLastTimestamp"),
                ("count", "deprecatedCount"),
                ("source", "deprecatedSource"),
            ];
            for (field, old) in old {
                let old = event.get(old);
                let component = old.get("component").is_empty() && old.get("host").is_empty();
                if old.present() && old.int() != Some(0) && !(field == "source" && component) {
                    event.get(field).invalid_as("", "needs to be unset");
                }
            }
            if !matches!(kind, "Normal" | "Warning") {
                event.get("type").invalid_as("", format!("has invalid value: {kind}"));
            }
        }
        validate(event, &NEW);
    },
    validate_update: Some(|new, old| {
        validate(new, &NEW);
        unchanged(new, old, &NEW);
    }),
    ..Kind::PLAIN
};
