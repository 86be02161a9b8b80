//! The types that mutations construct: `Object{…}`, `Object.spec{…}` and `JSONPatch{…}`.

use std::sync::Arc;

use crate::{
    Env, Type, Types,
    types::{Struct, StructType},
    value::{List, Map, Val},
};

/// The object of a mutation, or a part of it; any field of any type.
const OBJECT: &str = "Object";
/// An operation of a JSON patch.
const PATCH: &str = "JSONPatch";

struct Constructed(String);

impl StructType for Constructed {
    fn name(&self) -> &str {
        &self.0
    }

    fn field(&self, name: &str) -> Option<Type> {
        match (self.0.as_str(), name) {
            (PATCH, "op" | "from" | "path") => Some(Type::String),
            (PATCH, "value") => Some(Type::Dyn),
            (PATCH, _) => None,
            _ => Some(Type::Dyn),
        }
    }
}

struct Constructors;

impl Types for Constructors {
    fn find(&self, name: &str) -> Option<Struct> {
        let known = name == PATCH
            || name == OBJECT
            || name.strip_prefix(OBJECT).is_some_and(|rest| rest.starts_with('.'));
        known.then(|| Struct(Arc::new(Constructed(name.to_owned()))))
    }
}

/// The environment with the types of mutations.
#[must_use]
pub fn in_env(env: Env) -> Env {
    env.with_types(Arc::new(Constructors))
}

/// What an apply configuration must evaluate to.
#[must_use]
pub fn object_type() -> Type {
    Type::object(Constructed(OBJECT.to_owned()))
}

/// What a JSON patch must evaluate to.
#[must_use]
pub fn patch_type() -> Type {
    Type::list(Type::object(Constructed(PATCH.to_owned())))
}

/// What is wrong with the names of types in a constructed object: they must follow the fields they stand in.
#[must_use]
pub fn misnamed(value: &Val<'_>) -> Option<String> {
    let mut wrong = Vec::new();
    collect(value, OBJECT, &mut wrong);
    (!wrong.is_empty()).then(|| wrong.join("\n"))
}

fn collect(value: &Val<'_>, path: &str, wrong: &mut Vec<String>) {
    match value {
        Val::Map(Map::Made(made)) => {
            let object = made.of.as_deref().filter(|name| *name != PATCH);
            if let Some(name) = object.filter(|name| *name != path) {
                wrong.push(format!(
                    "unexpected type name {name:?}, expected {path:?}, which matches field name path from root Object type"
                ));
            }
            for (key, value) in &made.entries {
                match (object, key) {
                    (Some(_), Val::Text(key)) => collect(value, &format!("{path}.{}", &**key), wrong),
                    _ => collect(value, path, wrong),
                }
            }
        }
        Val::List(List::Made(list)) => list.iter().for_each(|item| collect(item, path, wrong)),
        _ => {}
    }
}
