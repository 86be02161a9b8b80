//! Device classes.

use super::checks;
use crate::kinds::{at::At, kind::Kind};

/// Device classes.
pub(crate) static KIND: Kind = Kind {
    generation: true,
    validate: |class| checks::selectors(&selectors(class)),
    validate_update: Some(|class, old| {
        // Selectors that did not change are not judged again.
        if !crate::kinds::at::same(selectors(class).value(), selectors(old).value()) {
            checks::selectors(&selectors(class));
        }
    }),
    ..Kind::PLAIN
};

fn selectors<'a>(class: &At<'a>) -> At<'a> {
    class.at("spec.selectors")
}
