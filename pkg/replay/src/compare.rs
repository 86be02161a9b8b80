//! What two runs of one script differ in.

use std::fmt;

use serde_json::Value;

use crate::Answer;

/// One place in which two answers differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The request's title.
    pub request: String,
    /// Where, such as `body.metadata.labels`.
    pub at: String,
    /// What ours has there; `absent` when nothing.
    pub ours: String,
    /// What upstream has there.
    pub upstream: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    ours     {}\n    upstream {}", self.request, self.at, self.ours, self.upstream)
    }
}

/// Compares two runs, answer by answer.
#[must_use]
pub fn compare(ours: &[Answer], upstream: &[Answer]) -> Vec<Difference> {
    let mut found = Vec::new();
    for theirs in upstream {
        let mut differ = |at: String, ours: String, upstream: String| {
            found.push(Difference { request: theirs.request.clone(), at, ours, upstream });
        };
        let Some(ours) = ours.iter().find(|ours| ours.request == theirs.request) else {
            differ("answer".to_owned(), "absent".to_owned(), theirs.code.to_string());
            continue;
        };
        if ours.code != theirs.code {
            differ("code".to_owned(), ours.code.to_string(), theirs.code.to_string());
        }
        for name in
            ours.headers.keys().chain(theirs.headers.keys()).collect::<std::collections::BTreeSet<_>>()
        {
            let (a, b) = (ours.headers.get(name), theirs.headers.get(name));
            if a != b {
                let shown = |value: Option<&String>| value.map_or_else(|| "absent".to_owned(), Clone::clone);
                differ(format!("header {name}"), shown(a), shown(b));
            }
        }
        trees("body", Some(&ours.body), Some(&theirs.body), &mut differ);
    }
    found
}

fn trees(
    at: &str,
    ours: Option<&Value>,
    upstream: Option<&Value>,
    differ: &mut impl FnMut(String, String, String),
) {
    match (ours, upstream) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                trees(&format!("{at}.{key}"), a.get(key), b.get(key), differ);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                trees(&format!("{at}[{index}]"), Some(a), Some(b), differ);
            }
        }
        (a, b) if a == b => {}
        (a, b) => {
            let shown = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), Value::to_string);
            differ(at.to_owned(), shown(a), shown(b));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_name_their_place() {
        let answer = |code, body| Answer { request: "r".to_owned(), code, headers: [].into(), body };
        let ours = [answer(200, json!({"a": {"b": [1, 2]}, "c": 1}))];
        let upstream = [answer(200, json!({"a": {"b": [1, 3]}, "d": null}))];
        let found: Vec<String> = compare(&ours, &upstream).iter().map(|d| d.at.clone()).collect();
        assert_eq!(found, ["body.a.b[1]", "body.c", "body.d"]);
        assert!(compare(&ours, &ours).is_empty());
    }
}
