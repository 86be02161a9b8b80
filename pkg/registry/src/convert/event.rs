//! Events: `events.k8s.io/v1` and core `v1` are two views on one store.

use serde_json::{Map, Value};

/// Field names in `events.k8s.io/v1` and in core `v1`; all others are alike.
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// The core form.
pub(super) fn to_core(event: &mut Value) {
    rename(event, "v1", |(new, old)| (new, old));
    if let Some(series) = event.get_mut("series").and_then(Value::as_object_mut) {
        series.remove("state");
    }
}

/// The `events.k8s.io/v1` form.
pub(super) fn from_core(event: &mut Value) {
    rename(event, "events.k8s.io/v1", |(new, old)| (old, new));
}

fn rename(
    event: &mut Value,
    api_version: &str,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(map) = event.as_object_mut() else { return };
    map.insert("apiVersion".to_owned(), api_version.into());
    for pair in RENAMED {
        let (from, to) = direction(pair);
        if let Some(value) = map.remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
    // Structs that upstream always writes, even when empty.
    for always in ["involvedObject", "regarding"] {
        if RENAMED.iter().map(|pair| direction(*pair).1).any(|to| to == always) {
            map.entry(always).or_insert_with(|| Value::Object(Map::new()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_two_views_are_one_object() {
        let new = json!({
            "kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "a"},
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "i",
            "action": "A", "reason": "R", "regarding": {"kind": "Pod", "name": "p"}, "note": "n", "type": "Normal",
            "deprecatedCount": 3,
        });
        let mut event = new.clone();
        to_core(&mut event);
        assert_eq!(event["apiVersion"], "v1");
        assert_eq!(event["involvedObject"]["name"], "p");
        assert_eq!(
            (&event["message"], &event["reportingComponent"], &event["count"]),
            (&json!("n"), &json!("c"), &json!(3))
        );
        assert!(event.get("regarding").is_none() && event.get("note").is_none());
        from_core(&mut event);
        assert_eq!(event, new);
    }
}
