//! What differs between two specs, for people.

use serde_json::Value;

/// The differing leaves, one line each: the old value after `-`, the new one after `+`.
pub(crate) fn render(old: &Value, new: &Value) -> String {
    let mut lines = Vec::new();
    walk("", Some(old), Some(new), &mut lines);
    lines.join("\n")
}

fn walk(path: &str, old: Option<&Value>, new: Option<&Value>, lines: &mut Vec<String>) {
    if crate::kinds::at::same(old, new) {
        return;
    }
    match (old, new) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let fresh = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(fresh) {
                walk(&format!("{path}.{key}"), a.get(key), b.get(key), lines);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for i in 0..a.len().max(b.len()) {
                walk(&format!("{path}[{i}]"), a.get(i), b.get(i), lines);
            }
        }
        (old, new) => {
            let path = path.trim_start_matches('.');
            lines.extend(old.map(|value| format!("- {path}: {value}")));
            lines.extend(new.map(|value| format!("+ {path}: {value}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn leaves_are_named() {
        let text = render(&json!({"a": [{"b": 1}]}), &json!({"a": [{"b": 2}], "c": "x"}));
        assert_eq!(text, "- a[0].b: 1\n+ a[0].b: 2\n+ c: \"x\"");
    }
}
