//! The one way a status is written: the difference to the old one as a merge patch, and nothing if there is none.

use copepod_client::{Meta, ResourceRef};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::step::Step;

/// The patch that makes `new` of `old`, if they differ. Both are written as the API writes them, so a field that
/// is left out when empty is removed.
#[must_use]
pub(crate) fn plan_status<S: Serialize>(
    resource: &ResourceRef,
    meta: &Meta,
    old: &S,
    new: &S,
) -> Option<Step> {
    let encode = |status: &S| serde_json::to_value(status).unwrap_or(Value::Null);
    let difference = merge_difference(&encode(old), &encode(new));
    let changed = difference.as_object().is_some_and(|d| !d.is_empty());
    changed.then(|| Step::status(resource, meta, difference))
}

/// The merge patch from `old` to `new`.
#[must_use]
pub(crate) fn merge_difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) => drop(patch.insert(key.clone(), merge_difference(before, value))),
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_differences_are_written_and_what_is_left_out_is_removed() {
        let old = json!({"a": 1, "gone": 2, "deep": {"x": 1, "y": 2}, "list": [1]});
        let new = json!({"a": 1, "deep": {"x": 1, "y": 3}, "list": [2], "new": true});
        let expected = json!({"gone": null, "deep": {"y": 3}, "list": [2], "new": true});
        assert_eq!(merge_difference(&old, &new), expected);
        assert_eq!(merge_difference(&new, &new), json!({}));
    }
}
