//! API services.

use serde_json::{Value, json};

use crate::hooks::HookContext;
use crate::kinds::defaults::{
    Lit::I,
    Rule::{In, Nil},
};
use crate::kinds::kind::{Kind, keep_meta};

/// API services.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["spec"], &[In(&["service"], &[Nil("port", I(443))])])],
    reset_status: true,
    prepare_create,
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::PLAIN
};

/// A group that this server serves itself is available at once.
fn prepare_create(cx: &HookContext<'_>, new: &mut Value) {
    if new.pointer("/spec/service").is_none_or(Value::is_null) {
        new["status"] = json!({"conditions": [{
            "type": "Available", "status": "True", "reason": "Local",
            "message": "Local APIServices are always available",
            "lastTransitionTime": cx.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }]});
    }
}
