//! Strategic merge patch: JSON merge patch with list merging by key and directives.
//!
//! Directives: `$patch: replace | delete | merge` in a map or a list item, `$retainKeys`,
//! `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>`.

use serde_json::{Map, Value};

use super::{
    PatchError,
    order::{self, Items},
    type_name,
};
use crate::node::{Kind, SchemaRef};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_LIST: &str = "$deleteFromPrimitiveList";
const ORDER_LIST: &str = "$setElementOrder";

type Result<T> = std::result::Result<T, PatchError>;
type Object = Map<String, Value>;

/// The object that `patch` makes of `original`. Both must be maps; the result may hold fields the schema does not.
///
/// # Errors
/// A malformed directive, a list item without its merge key, or an order list that contradicts the patch.
pub fn strategic(original: &Value, patch: &Value, schema: SchemaRef<'_>) -> Result<Value> {
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        return Err(PatchError::Malformed("invalid JSON document".to_owned()));
    };
    if !schema.is_typed() {
        return Err(PatchError::Malformed("strategic merge patch format is not supported".to_owned()));
    }
    merge_map(original.clone(), patch.clone(), Some(schema)).map(Value::Object)
}

fn merge_map(mut original: Object, mut patch: Object, schema: Option<SchemaRef<'_>>) -> Result<Object> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(bad_directive(&directive.clone(), patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    ordered_lists(&mut original, &mut patch, schema)?;
    for (key, value) in patch {
        let (key, delete_list) = match key.strip_prefix(DELETE_LIST) {
            Some(rest) => {
                let field = rest.strip_prefix('/').filter(|field| !field.is_empty());
                let malformed = || PatchError::Malformed("invalid patch format of primitive list".to_owned());
                (field.ok_or_else(malformed)?.to_owned(), true)
            }
            None => (key, false),
        };
        merge_entry(&mut original, key, value, delete_list, schema)?;
    }
    Ok(original)
}

fn merge_entry(
    original: &mut Object,
    key: String,
    mut value: Value,
    delete_list: bool,
    schema: Option<SchemaRef<'_>>,
) -> Result<()> {
    if value.is_null() {
        original.remove(&key);
        return Ok(());
    }
    let merged = match (original.remove(&key), value) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let child = map_schema(schema, &key)?;
            let replace = child.is_some_and(|c| c.patch_strategy().replace);
            Some(Value::Object(if replace { new } else { merge_map(old, new, child)? }))
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            let list = list_schema(schema, &key)?;
            Some(Value::Array(merge_list(old, new, list, delete_list)?))
        }
        // A list to delete from that is not there, or not a list.
        (old, _) if delete_list => old,
        (_, new) => {
            value = new;
            discard_nulls(&mut value);
            remove_directives(value)
        }
    };
    if let Some(merged) = merged {
        original.insert(key, merged);
    }
    Ok(())
}

/// The schema of a nested map. A field that the struct does not have is an error, as upstream's look-up is.
fn map_schema<'s>(schema: Option<SchemaRef<'s>>, key: &str) -> Result<Option<SchemaRef<'s>>> {
    let Some(schema) = schema else { return Ok(None) };
    match schema.child(key) {
        Some(child) => Ok(Some(child)),
        None if schema.kind() == Kind::Object && !schema.has_fields() => Ok(None),
        None => Err(PatchError::Internal(format!(
            "unable to find api field in struct {} for the json field {key:?}",
            struct_name(schema)
        ))),
    }
}

fn list_schema<'s>(schema: Option<SchemaRef<'s>>, key: &str) -> Result<Option<SchemaRef<'s>>> {
    map_schema(schema, key)
}

fn struct_name(schema: SchemaRef<'_>) -> String {
    let name = schema.go_type();
    name.rsplit('.').next().unwrap_or(&name).to_owned()
}

/// `$retainKeys`: drops what the list does not name; the patch may not set what it does not name.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<()> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let Value::Array(keep) = directive else { return Err(malformed()) };
    let kept = |key: &str| keep.iter().any(|k| k == key);
    let directive = |key: &str| key.starts_with(DELETE_LIST) || key.starts_with(ORDER_LIST);
    if patch.iter().any(|(key, value)| !value.is_null() && !directive(key) && !kept(key)) {
        return Err(malformed());
    }
    original.retain(|key, _| kept(key));
    Ok(())
}

/// `$setElementOrder`: merges the lists it is about, then sorts them; what was handled leaves the patch.
fn ordered_lists(original: &mut Object, patch: &mut Object, schema: Option<SchemaRef<'_>>) -> Result<()> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(ORDER_LIST)).cloned().collect();
    for directive in directives {
        let malformed = || PatchError::Malformed("invalid patch format of setElementOrder list".to_owned());
        let wanted = list(patch.remove(&directive))?.unwrap_or_default();
        let field = directive
            .strip_prefix(ORDER_LIST)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or_else(malformed)?;
        let old = list(original.get(field).cloned())?;
        let new = list(patch.get(field).cloned())?;
        let node = list_schema(schema, field)?;
        let key = node.and_then(SchemaRef::merge_key);
        order::check(new.as_deref().unwrap_or_default(), &wanted, key)?;
        let merged = match (old.clone(), new.clone()) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => match remove_directives(Value::Array(new)) {
                Some(Value::Array(list)) => list,
                _ => continue,
            },
            (Some(old), Some(new)) => merge_list(old, new, node, false)?,
        };
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let key = Items::of(&[&old, &new])?.key(key);
        let sorted = order::arrange(merged, &wanted, &wanted, &server_order(&old, &new, key), key)?;
        original.insert(field.to_owned(), Value::Array(sorted));
        patch.remove(field);
    }
    Ok(())
}

/// The order that items known to the server alone are held to. Upstream merges in place: items added by the patch
/// take the places of deleted ones in the old list, which then serves as the order. Clients see that order.
fn server_order(old: &[Value], new: &[Value], key: Option<&str>) -> Vec<Value> {
    let Some(key) = key else { return old.to_vec() };
    let (deleted, added): (Vec<&Value>, Vec<&Value>) =
        new.iter().partition(|item| item.get(DIRECTIVE).is_some());
    let same = |a: &Value, b: &Value| a.get(key) == b.get(key);
    let kept = old.iter().filter(|item| !deleted.iter().any(|gone| same(gone, item)));
    let added = added.into_iter().filter(|item| !old.iter().any(|known| same(known, item)));
    kept.chain(added).take(old.len()).cloned().collect()
}

fn list(value: Option<Value>) -> Result<Option<Vec<Value>>> {
    match value {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(PatchError::Internal(format!(
            "expected a []interface {{}}, but received a {}",
            go_kind(&other)
        ))),
    }
}

fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    schema: Option<SchemaRef<'_>>,
    delete_list: bool,
) -> Result<Vec<Value>> {
    if !delete_list && !schema.is_some_and(|s| s.patch_strategy().merge) {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let items = Items::of(&[&original, &patch])?;
    if items == Items::Scalars {
        if delete_list {
            return Ok(original.into_iter().filter(|item| !patch.contains(item)).collect());
        }
        let mut merged = original.clone();
        merged.extend(patch.iter().cloned());
        let merged = order::deduplicate(merged);
        return order::arrange(merged, &patch, &patch, &original, None);
    }
    let Some(key) = schema.and_then(SchemaRef::merge_key) else {
        let name = schema.and_then(SchemaRef::items).map(struct_name).unwrap_or_default();
        return Err(PatchError::Internal(format!("cannot merge lists without merge key for {name}")));
    };
    let (mut original, patch) = list_directives(original, patch, key)?;
    let before = original.clone();
    for item in &patch {
        let Value::Object(item) = item else { continue };
        let value = item.get(key).ok_or_else(|| order::no_merge_key(item, key))?;
        match original.iter_mut().find(|old| old.get(key) == Some(value)) {
            Some(Value::Object(old)) => {
                *old = merge_map(std::mem::take(old), item.clone(), schema.and_then(SchemaRef::items))?;
            }
            _ => original.push(Value::Object(item.clone())),
        }
    }
    order::arrange(original, &patch, &patch, &before, Some(key))
}

/// Takes `$patch` items out of a patch list: deletions act on the original, a replacement empties it.
fn list_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut plain = Vec::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(map) = item else { continue };
        match map.get(DIRECTIVE).map(Value::as_str) {
            None => plain.push(Value::Object(map)),
            Some(Some("replace")) => replace = true,
            Some(Some("delete")) => {
                let value = map.get(key).ok_or_else(|| order::no_merge_key(&map, key))?;
                original.retain(|old| old.get(key) != Some(value));
            }
            Some(Some("merge")) => {
                return Err(PatchError::Internal(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            Some(_) => return Err(bad_directive(&map[DIRECTIVE].clone(), map)),
        }
    }
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

fn bad_directive(directive: &Value, map: Object) -> PatchError {
    PatchError::Internal(format!(
        "unknown patch type: {} in map: {}",
        order::go_text(directive),
        order::go_text(&Value::Object(map))
    ))
}

/// What is new in the object must not carry directives. `None` when the whole value is one.
fn remove_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter().filter_map(|(key, value)| Some((key, remove_directives(value)?))).collect(),
        )),
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(remove_directives).collect())),
        other => Some(other),
    }
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "map[string]interface {}",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        other => type_name(other),
    }
}
