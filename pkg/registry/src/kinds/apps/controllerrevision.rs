//! Controller revisions.

use crate::kinds::at::At;
use crate::kinds::kind::Kind;

/// Controller revisions.
pub(crate) static KIND: Kind = Kind {
    validate: check,
    validate_update: Some(|new, old| {
        check(new);
        new.get("data").immutable(&old.get("data"));
    }),
    ..Kind::PLAIN
};

fn check(revision: &At<'_>) {
    revision.get("data").need_because("data is mandatory");
    revision.get("revision").not_negative();
}
