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
