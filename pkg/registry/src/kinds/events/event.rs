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
            event.get("type").need_one_of(&["Normal", "Warning"]);
        }
        validate(event, &NEW);
    },
    validate_update: Some(|new, old| {
        validate(new, &NEW);
        unchanged(new, old, &NEW);
    }),
    ..Kind::PLAIN
};
