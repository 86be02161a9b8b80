//! The JSONPath of printer columns and selectable fields: fields, quoted fields, indices, slices, `*` and simple
//! filters.

use serde_json::Value;

/// The values a path such as `.spec.ports[0].name`, `.status.conditions[?(@.type=="Ready")].status` or
/// `.metadata.labels['a\.b']` finds.
#[must_use]
pub fn find<'a>(root: &'a Value, path: &str) -> Vec<&'a Value> {
    let path = path.trim();
    let path = path.strip_prefix('{').and_then(|p| p.strip_suffix('}')).unwrap_or(path);
    let mut found = vec![root];
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        let Some((step, after)) = next(rest) else { return Vec::new() };
        found = found.into_iter().flat_map(|value| step.apply(value)).collect();
        rest = after;
    }
    found
}

/// A found value as text: strings as they are, everything else as JSON.
#[must_use]
pub(super) fn print(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    All,
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    Filter { path: String, operator: String, value: Value },
    Exists(String),
}

/// Splits the first step off a path.
fn next(path: &str) -> Option<(Step, &str)> {
    if let Some(rest) = path.strip_prefix('[') {
        let end = closing(rest)?;
        let (inner, after) = (rest.get(..end)?, rest.get(end + 1..)?);
        return Some((bracket(inner.trim())?, after));
    }
    let rest = path.strip_prefix('.').unwrap_or(path);
    if rest.is_empty() {
        return None;
    }
    let (mut name, mut end, mut escaped) = (String::new(), rest.len(), false);
    for (i, c) in rest.char_indices() {
        match c {
            _ if escaped => {
                name.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '.' | '[' => {
                end = i;
                break;
            }
            c => name.push(c),
        }
    }
    let step = if name == "*" { Step::All } else { Step::Field(name) };
    Some((step, rest.get(end..)?))
}

/// The position of the bracket that closes the one before `text`, outside quotes.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[' | '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ']') if depth == 0 => return Some(i),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Option<Step> {
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(quoted) = unquote(inner) {
        return Some(Step::Field(quoted.replace("\\.", ".")));
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        return Some(filter_step(filter.trim()));
    }
    if let Some((from, to)) = inner.split_once(':') {
        return Some(Step::Slice(from.trim().parse().ok(), to.trim().parse().ok()));
    }
    inner.parse().ok().map(Step::Index)
}

fn unquote(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|q| text.strip_prefix(q)?.strip_suffix(q))
}

fn filter_step(filter: &str) -> Step {
    for operator in ["==", "!=", "<=", ">=", "<", ">"] {
        if let Some((left, right)) = filter.split_once(operator) {
            let right = right.trim();
            let value = match unquote(right) {
                Some(text) => text.into(),
                None => serde_json::from_str(right).unwrap_or_else(|_| right.into()),
            };
            let path = left.trim().trim_start_matches('@').to_owned();
            return Step::Filter { path, operator: operator.to_owned(), value };
        }
    }
    Step::Exists(filter.trim_start_matches('@').to_owned())
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(map)) => map.get(name).into_iter().collect(),
            (Self::All, Value::Object(map)) => map.values().collect(),
            (Self::All, Value::Array(list)) => list.iter().collect(),
            (Self::Index(i), Value::Array(list)) => {
                at(list, *i).and_then(|i| list.get(i)).into_iter().collect()
            }
            (Self::Slice(from, to), Value::Array(list)) => {
                let from = from.and_then(|i| at(list, i)).unwrap_or(0);
                let to = to.and_then(|i| at(list, i)).unwrap_or(list.len()).min(list.len());
                list.get(from..to).unwrap_or_default().iter().collect()
            }
            (Self::Filter { path, operator, value }, Value::Array(list)) => {
                let holds =
                    |item: &&Value| find(item, path).first().is_some_and(|v| compare(v, operator, value));
                list.iter().filter(holds).collect()
            }
            (Self::Exists(path), Value::Array(list)) => {
                list.iter().filter(|item| !find(item, path).is_empty()).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn at(list: &[Value], index: i64) -> Option<usize> {
    let len = i64::try_from(list.len()).ok()?;
    usize::try_from(if index < 0 { index + len } else { index }).ok()
}

fn compare(left: &Value, operator: &str, right: &Value) -> bool {
    let order = match (left, right) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (a, b) => (a == b).then_some(std::cmp::Ordering::Equal),
    };
    match operator {
        "==" => order.is_some_and(std::cmp::Ordering::is_eq),
        "!=" => !order.is_some_and(std::cmp::Ordering::is_eq),
        "<" => order.is_some_and(std::cmp::Ordering::is_lt),
        "<=" => order.is_some_and(std::cmp::Ordering::is_le),
        ">" => order.is_some_and(std::cmp::Ordering::is_gt),
        _ => order.is_some_and(std::cmp::Ordering::is_ge),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_of_printer_columns() {
        let object = json!({"spec": {"replicas": 3, "ports": [{"name": "a"}, {"name": "b"}]},
            "metadata": {"labels": {"x.y/z": "v"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}});
        let text = |path: &str| find(&object, path).iter().map(|v| print(v)).collect::<Vec<_>>().join(",");
        assert_eq!(text(".spec.replicas"), "3");
        assert_eq!(text("{.spec.ports[1].name}"), "b");
        assert_eq!(text(".spec.ports[*].name"), "a,b");
        assert_eq!(text(".spec.ports[-1:].name"), "b");
        assert_eq!(text(".metadata.labels['x\\.y/z']"), "v");
        assert_eq!(text(".metadata.labels.x\\.y/z"), "v");
        assert_eq!(text(r#".status.conditions[?(@.type=="Ready")].status"#), "True");
        assert_eq!(text(".status.absent.deep"), "");
    }
}
