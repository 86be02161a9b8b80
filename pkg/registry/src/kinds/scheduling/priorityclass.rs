//! Priority classes.

use crate::kinds::at::At;
use crate::kinds::defaults::{Lit::S, Rule::Nil};
use crate::kinds::kind::Kind;

/// Priority classes.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Nil("preemptionPolicy", S("PreemptLowerPriority"))],
    generation: true,
    counts: |_, _| false,
    validate,
    validate_update: Some(|new, old| {
        if new.get("value").int().unwrap_or(0) != old.get("value").int().unwrap_or(0) {
            new.get("value").forbidden("may not be changed in an update.");
        }
        new.get("preemptionPolicy").immutable(&old.get("preemptionPolicy"));
    }),
    undeletable: |name| {
        let system = SYSTEM.iter().any(|(system, _)| *system == name);
        system.then_some("this is a system priority class and cannot be deleted")
    },
    ..Kind::PLAIN
};

/// The classes of the system and their values.
const SYSTEM: &[(&str, i64)] =
    &[("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

fn validate(class: &At<'_>) {
    let (name, value) = (class.at("metadata.name"), class.get("value"));
    let number = value.int().unwrap_or(0);
    if name.str().starts_with("system-") {
        let known = SYSTEM.iter().find(|(system, _)| *system == name.str());
        let error = match known {
            None => Some(format!("{} is not a known system priority class", name.str())),
            Some((system, wanted)) if *wanted != number => {
                Some(format!("value of {system} PriorityClass must be {wanted}"))
            }
            Some((system, _)) if class.get("globalDefault").bool() => {
                Some(format!("globalDefault of {system} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(error) = error {
            name.forbidden(format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {error}"
            ));
        }
    } else if number > 1_000_000_000 {
        value.forbidden("maximum allowed value of a user defined priority is 1000000000");
    }
    class.get("preemptionPolicy").one_of(&["PreemptLowerPriority", "Never"]);
}
