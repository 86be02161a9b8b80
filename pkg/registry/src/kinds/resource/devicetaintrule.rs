//! Rules that taint devices.

use copepod_api::names;
use jiff::Timestamp;
use serde_json::Value;

use crate::hooks::HookContext;
use crate::kinds::defaults::fill;
use crate::kinds::kind::{Kind, keep_meta};

/// Device taint rules.
pub(crate) static KIND: Kind = Kind {
    defaults_now: |now, rule| {
        if let Some(taint) = rule.pointer_mut("/spec/taint").and_then(Value::as_object_mut) {
            fill(taint, "timeAdded", time(now));
        }
    },
    prepare_update,
    validate: |rule| {
        let selector = rule.at("spec.deviceSelector");
        selector.get("pool").text(names::dns1123_subdomain);
        selector.get("device").text(names::dns1123_label);
        let key = rule.at("spec.taint.key");
        names::qualified_name(key.str()).into_iter().for_each(|e| key.invalid(e));
        let effect = rule.at("spec.taint.effect");
        if effect.str().is_empty() {
            effect.required("");
        } else {
            effect.one_of(&["NoExecute", "NoSchedule", "None"]);
        }
    },
    prepare_status: |_, new, old| keep_meta(new, old),
    ..Kind::WITH_STATUS
};

fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A changed effect starts anew, unless the client sets the time itself.
fn prepare_update(cx: &HookContext<'_>, new: &mut Value, old: &Value) {
    let of = |object: &Value, field: &str| object.pointer(&format!("/spec/taint/{field}")).cloned();
    let changed = of(new, "effect") != of(old, "effect");
    let same_time = of(new, "timeAdded") == of(old, "timeAdded");
    if let Some(taint) = new.pointer_mut("/spec/taint").and_then(Value::as_object_mut) {
        if changed && same_time {
            taint.insert("timeAdded".to_owned(), time(cx.now).into());
        }
        fill(taint, "timeAdded", time(cx.now));
    }
}
