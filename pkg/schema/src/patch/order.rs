//! Order of merged lists: what the patch names comes in the patch's order, what only the server has stays where it
//! was relative to its neighbours.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::PatchError;

/// What a list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    Scalars,
    Maps,
}

impl Items {
    /// The one type of all items of the lists.
    pub(super) fn of(lists: &[&[Value]]) -> Result<Self, PatchError> {
        let mut all = lists.iter().copied().flatten();
        let internal = |text: &str| Err(PatchError::Internal(text.to_owned()));
        let Some(first) = all.next() else { return internal("no elements in any of the given slices") };
        if first.is_array() {
            return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()));
        }
        if all.any(|item| std::mem::discriminant(item) != std::mem::discriminant(first)) {
            let lists: Vec<String> = lists.iter().map(|list| go_text(&Value::Array(list.to_vec()))).collect();
            return internal(&format!("list element types are not identical: [{}]", lists.join(" ")));
        }
        Ok(if first.is_object() { Self::Maps } else { Self::Scalars })
    }

    /// The merge key, for maps only.
    pub(super) fn key(self, key: Option<&str>) -> Option<&str> {
        key.filter(|_| self == Self::Maps)
    }
}

/// What identifies an item: its merge key, or itself.
fn identity<'v>(item: &'v Value, key: Option<&str>) -> &'v Value {
    match key {
        Some(key) => item.get(key).unwrap_or(&Value::Null),
        None => item,
    }
}

fn position(list: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    list.iter().position(|other| identity(other, key) == identity(item, key))
}

/// Items that `named` names in the order of `patch_order`, interleaved with all others in the order of `server_order`.
pub(super) fn arrange(
    merged: Vec<Value>,
    named: &[Value],
    patch_order: &[Value],
    server_order: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    if let Some(key) = key {
        let lists = [merged.as_slice(), named, patch_order];
        let keyless =
            lists.into_iter().flatten().filter_map(Value::as_object).find(|item| !item.contains_key(key));
        if let Some(item) = keyless {
            return Err(no_merge_key(item, key));
        }
    }
    let (mut patch, mut server): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| position(named, item, key).is_some());
    sort(&mut patch, patch_order, key);
    sort(&mut server, server_order, key);
    Ok(interleave(server, patch, server_order, key))
}

/// Stable sort by position in `order`; items that are not in it keep their places.
fn sort(list: &mut [Value], order: &[Value], key: Option<&str>) {
    list.sort_by(|a, b| match (position(order, a, key), position(order, b, key)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => Ordering::Equal,
    });
}

fn interleave(left: Vec<Value>, right: Vec<Value>, order: &[Value], key: Option<&str>) -> Vec<Value> {
    let mut all = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        let from_left = match (left.peek(), right.peek()) {
            (None, None) => return all,
            (Some(l), Some(r)) => {
                matches!((position(order, l, key), position(order, r, key)), (Some(l), Some(r)) if l < r)
            }
            (left, _) => left.is_some(),
        };
        all.extend(if from_left { left.next() } else { right.next() });
    }
}

/// The items of the patch must come in the order of the order list, which must name them all.
pub(super) fn check(patch: &[Value], wanted: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let mut rest = wanted.iter();
    for item in patch.iter().filter(|item| item.get("$patch").is_none()) {
        if let (Some(key), Value::Object(map)) = (key, item)
            && !map.contains_key(key)
        {
            return Err(no_merge_key(map, key));
        }
        if !rest.any(|other| identity(other, key) == identity(item, key)) {
            return Err(PatchError::Internal(format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                go_text(&Value::Array(patch.to_vec())),
                go_text(&Value::Array(wanted.to_vec()))
            )));
        }
    }
    Ok(())
}

/// Keeps the first of equal scalars.
pub(super) fn deduplicate(list: Vec<Value>) -> Vec<Value> {
    let mut unique = Vec::with_capacity(list.len());
    for item in list {
        if !unique.contains(&item) {
            unique.push(item);
        }
    }
    unique
}

pub(super) fn no_merge_key(item: &Map<String, Value>, key: &str) -> PatchError {
    let item = go_text(&Value::Object(item.clone()));
    PatchError::Internal(format!("map: {item} does not contain declared merge key: {key}"))
}

/// Go's `%v` of a decoded JSON value.
pub(crate) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}
