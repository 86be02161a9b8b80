//! Pod templates.

use serde_json::Value;

use crate::kinds::kind::{Kind, body_differs};
use crate::kinds::pod::defaults::TEMPLATE;
use crate::kinds::pod::{template_warnings as warn, validate};

/// Pod templates.
pub(crate) static KIND: Kind = Kind {
    defaults: TEMPLATE,
    generation: true,
    counts: body_differs,
    validate: |object| validate::template(&object.get("template")),
    warnings: |new, old| template_warnings(new, old, "/template", "template"),
    ..Kind::PLAIN
};

/// Warnings about the template at `pointer`, unless an update leaves it as it was.
pub(crate) fn template_warnings(new: &Value, old: Option<&Value>, pointer: &str, path: &str) -> Vec<String> {
    let template = new.pointer(pointer);
    if old.is_some_and(|old| old.pointer(pointer) == template) {
        return Vec::new();
    }
    template.map(|template| warn(template, path)).unwrap_or_default()
}
