//! Merging fields into an object without owning them, as mutating admission policies do.

use serde_json::Value;

use super::{
    atom::{Atom, Relation, Type},
    merge, typed,
};
use crate::node::SchemaRef;

/// The object with everything that `config` sets; managed fields are left alone.
///
/// # Errors
/// A configuration that does not fit the schema, or that sets lists, maps or structs which can only be replaced as a
/// whole.
pub fn merge_unowned(object: &Value, config: &Value, schema: SchemaRef<'_>) -> Result<Value, String> {
    let root = Type::of(schema);
    let errors = typed::validate(config, root, false);
    if !errors.is_empty() {
        let text = typed::error_text(&errors);
        return Err(format!("failed to convert patch object to typed object: {text}"));
    }
    let mut whole = Vec::new();
    atomics(config, root, &mut String::new(), &mut whole);
    if !whole.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            whole.join(", ")
        ));
    }
    let merged = merge::merge(object, config, root)
        .map_err(|errors| format!("failed to merge patch: {}", typed::error_text(&errors)))?;
    Ok(merged.unwrap_or_else(|| object.clone()))
}

/// The paths of all that `value` would replace as a whole.
fn atomics(value: &Value, of: Type<'_>, path: &mut String, out: &mut Vec<String>) {
    let length = path.len();
    match (of.atom(Some(value)), value) {
        (Atom::Map(map), Value::Object(fields)) => {
            if map.atomic {
                out.push(path.clone());
            }
            for (name, value) in fields.iter().filter(|(name, _)| map.declares(name)) {
                if let Some(child) = map.child(name) {
                    path.push('.');
                    path.push_str(name);
                    atomics(value, child, path, out);
                    path.truncate(length);
                }
            }
        }
        (Atom::List(list), Value::Array(items)) => {
            if list.relation == Relation::Atomic {
                out.push(path.clone());
            }
            for (at, item) in items.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                atomics(item, list.items, path, out);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin;

    #[test]
    fn fields_are_merged_and_whole_lists_are_not_taken() {
        let schema = builtin().kind("apps", "v1", "Deployment").unwrap();
        let object = json!({"spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "a", "image": "x"}]}}}});
        let config = json!({"spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "b", "image": "y"}]}}}});
        let merged = merge_unowned(&object, &config, schema).unwrap();
        assert_eq!(merged["spec"]["replicas"], 2);
        assert_eq!(merged.pointer("/spec/template/spec/containers").unwrap().as_array().unwrap().len(), 2);
        let config = json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "args": ["z"]}]}}}});
        let error = merge_unowned(&object, &config, schema).unwrap_err();
        assert!(error.ends_with("structs: .spec.template.spec.containers[0].args"), "{error}");
    }
}
