//! API services.

use serde_json::{Value, json};

use copepod_api::names;

use crate::hooks::HookContext;
use crate::kinds::at::At;
use crate::kinds::defaults::{
    Lit::I,
    Rule::{In, Nil},
};
use crate::kinds::kind::{Kind, keep_meta};

/// API services.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(&["spec"], &[In(&["service"], &[Nil("port", I(443))])])],
    reset_status: true,
    name: names::path_segment,
    prepare_create,
    validate,
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

fn validate(service: &At<'_>) {
    let spec = service.get("spec");
    let (group, version) = (spec.get("group"), spec.get("version"));
    let (name, wanted) = (service.at("metadata.name"), format!("{}.{}", version.str(), group.str()));
    if name.str() != wanted {
        name.invalid(format!("must be `spec.version+\".\"+spec.group`: {wanted:?}"));
    }
    if !group.is_empty() {
        group.text(names::dns1123_subdomain);
    } else if version.str() != "v1" {
        group.required("only v1 may have an empty group and it better be legacy kube");
    }
    version.invalid_all(names::dns1035_label(version.str()));
    for (field, max) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let number = spec.get(field).int().unwrap_or(0);
        if !(1..=max).contains(&number) {
            spec.get(field).invalid_as(number, format!("must be positive and less than {max}"));
        }
    }
    let (bundle, insecure, backend) =
        (spec.get("caBundle"), spec.get("insecureSkipTLSVerify"), spec.get("service"));
    if !backend.present() {
        if !bundle.is_empty() {
            bundle.invalid("local APIServices may not have a caBundle");
        }
        if insecure.bool() {
            insecure.invalid("local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    backend.get("namespace").need();
    backend.get("name").need();
    let port = backend.get("port");
    if port.int().is_some_and(|n| !(1..=65535).contains(&n)) {
        port.invalid("port is not valid: must be between 1 and 65535, inclusive");
    }
    if insecure.bool() && !bundle.is_empty() {
        insecure.invalid("may not be true if caBundle is present");
    }
}
