//! The strategy of custom resources.

use copepod_api::{FieldError, FieldErrors, FieldPath, meta, names};
use serde_json::Value;

use crate::{
    hooks::{HookContext, Hooks},
    row::ScalePaths,
};

/// Custom resources, with or without subresources.
pub(super) struct CustomHooks {
    pub(super) status: bool,
    pub(super) scale: Option<ScalePaths>,
}

impl Hooks for CustomHooks {
    fn prepare_create(&self, _cx: &HookContext<'_>, new: &mut Value) {
        if self.status
            && let Some(map) = new.as_object_mut()
        {
            map.remove("status");
        }
    }

    fn validate_create(&self, _cx: &HookContext<'_>, new: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if let Some(scale) = &self.scale {
            count(new, &scale.spec_replicas, &mut errors);
        }
        errors.extend(self.scale_status(new));
        errors
    }

    fn validate_status(&self, _cx: &HookContext<'_>, new: &Value, _old: &Value) -> FieldErrors {
        self.scale_status(new)
    }

    fn warnings(&self, _cx: &HookContext<'_>, new: &Value, old: Option<&Value>) -> Vec<String> {
        let known = old.map(meta::finalizers).unwrap_or_default();
        let added = meta::finalizers(new).into_iter().filter(|name| !known.contains(name));
        added.flat_map(finalizer_warnings).collect()
    }

    /// Without a status subresource, changes of `status` count like any other.
    fn generation_changed(&self, new: &Value, old: &Value) -> bool {
        let ignored = |field: &str| field == "metadata" || (self.status && field == "status");
        let members = |object: &Value| -> Vec<(String, Value)> {
            let map = object.as_object().into_iter().flatten();
            map.filter(|(field, _)| !ignored(field)).map(|(f, v)| (f.clone(), v.clone())).collect()
        };
        members(new) != members(old)
    }

    fn unconditional_update(&self) -> bool {
        false
    }
}

impl CustomHooks {
    fn scale_status(&self, new: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let Some(scale) = &self.scale else { return errors };
        count(new, &scale.status_replicas, &mut errors);
        if let Some(path) = &scale.selector
            && let Err(why) = find(new, path, "string", |value| value.as_str())
        {
            errors.push(FieldError::invalid(&FieldPath::new(path), "", why));
        }
        errors
    }
}

/// A number of replicas, where there is one.
fn count(object: &Value, path: &str, errors: &mut FieldErrors) {
    let (shown, why) = match find(object, path, "int64", |value| value.as_i64()) {
        Err(why) => (0, why),
        Ok(Some(n)) if n < 0 => (n, "should be a non-negative integer".to_owned()),
        Ok(Some(n)) if n > i64::from(i32::MAX) => {
            (n, format!("should be less than or equal to {}", i32::MAX))
        }
        Ok(_) => return,
    };
    errors.push(FieldError::invalid(&FieldPath::new(path), shown, why));
}

/// The value at a path of fields; an error where something on the way is of another type.
fn find<'v, T>(
    object: &'v Value,
    path: &str,
    wanted: &str,
    read: impl Fn(&'v Value) -> Option<T>,
) -> Result<Option<T>, String> {
    let mut at = object;
    let mut seen = String::new();
    for step in path.trim_start_matches('.').split('.') {
        let Some(map) = at.as_object() else {
            return Err(accessor(&seen, at, "map[string]interface {}"));
        };
        seen = format!("{seen}.{step}");
        match map.get(step) {
            None => return Ok(None),
            Some(next) => at = next,
        }
    }
    read(at).map(Some).ok_or_else(|| accessor(&seen, at, wanted))
}

/// What upstream's accessor of trees says of a value of another type.
fn accessor(path: &str, found: &Value, wanted: &str) -> String {
    let (shown, kind) = match found {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(on) => (on.to_string(), "bool"),
        Value::Number(number) if number.is_f64() => (number.to_string(), "float64"),
        Value::Number(number) => (number.to_string(), "int64"),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (found.to_string(), "[]interface {}"),
        Value::Object(_) => (found.to_string(), "map[string]interface {}"),
    };
    format!("{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}

/// What is not wrong with a finalizer, but not good either.
fn finalizer_warnings(name: &str) -> Vec<String> {
    let tell = |why: &str| format!("metadata.finalizers: {name:?}: {why}");
    let mut warnings: Vec<String> = names::qualified_name(name).iter().map(|why| tell(why)).collect();
    if !name.contains('/') && !crate::metadata::STANDARD_FINALIZERS.contains(&name) {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        warnings.push(tell(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )));
    }
    warnings
}
