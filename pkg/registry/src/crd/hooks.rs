//! The strategy of custom resources.

use serde_json::Value;

use crate::hooks::{HookContext, Hooks};

/// Custom resources, with or without a status subresource.
pub(super) struct CustomHooks {
    pub(super) status: bool,
}

impl Hooks for CustomHooks {
    fn prepare_create(&self, _cx: &HookContext<'_>, new: &mut Value) {
        if self.status
            && let Some(map) = new.as_object_mut()
        {
            map.remove("status");
        }
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
