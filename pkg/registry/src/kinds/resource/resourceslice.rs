//! Resource slices: the devices of a pool.

use serde_json::Value;

use super::checks;
use crate::hooks::HookContext;
use crate::kinds::defaults::fill;
use crate::kinds::kind::Kind;

/// Resource slices.
pub(crate) static KIND: Kind = Kind {
    prepare_create: |cx, new| date_taints(cx, new),
    prepare_update: |cx, new, _| date_taints(cx, new),
    generation: true,
    validate: |slice| checks::slice(&slice.get("spec")),
    validate_update: Some(|new, old| {
        checks::slice(&new.get("spec"));
        for field in ["driver", "nodeName"] {
            new.get("spec").get(field).immutable(&old.get("spec").get(field));
        }
        new.at("spec.pool.name").immutable(&old.at("spec.pool.name"));
    }),
    ..Kind::PLAIN
};

/// A taint without a time was added now.
fn date_taints(cx: &HookContext<'_>, slice: &mut Value) {
    let now = cx.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    for device in slice.pointer_mut("/spec/devices").and_then(Value::as_array_mut).into_iter().flatten() {
        for taint in device.get_mut("taints").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(taint) = taint.as_object_mut() {
                fill(taint, "timeAdded", now.clone());
            }
        }
    }
}
