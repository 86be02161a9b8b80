//! CSI drivers.

use std::collections::HashSet;

use copepod_api::FieldError;
use serde_json::json;

use crate::kinds::at::At;
use crate::kinds::checks::warn;
use crate::kinds::defaults::{
    Lit::{B, S},
    Object,
    Rule::{In, Nil, Run},
    is_zero,
};
use crate::kinds::kind::Kind;

/// CSI drivers.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(
        &["spec"],
        &[
            Nil("attachRequired", B(true)),
            Nil("podInfoOnMount", B(false)),
            Nil("storageCapacity", B(false)),
            Nil("fsGroupPolicy", S("ReadWriteOnceWithFSType")),
            Run(lifecycle_modes),
            Nil("requiresRepublish", B(false)),
            Nil("seLinuxMount", B(false)),
            Nil("preventPodSchedulingIfMissing", B(false)),
        ],
    )],
    // Changes count, but from nothing.
    prepare_create: |_, new| drop(copepod_api::meta::metadata_mut(new).remove("generation")),
    unconditional_update: false,
    validate: |driver| spec(&driver.get("spec")),
    validate_update: Some(|new, old| {
        let (at, was) = (new.get("spec"), old.get("spec"));
        spec(&at);
        at.get("attachedRequired").holding(&at.get("attachRequired")).immutable(&was.get("attachRequired"));
        at.get("volumeLifecycleModes").immutable(&was.get("volumeLifecycleModes"));
    }),
    generation: true,
    warnings: |new, _| {
        warn::about(new, copepod_api::FieldPath::root(), |driver, warnings| {
            let spec = driver.get("spec");
            if !spec.get("tokenRequests").is_empty() && !spec.get("serviceAccountTokenInSecrets").present() {
                warnings.push("spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".to_owned());
            }
        })
    },
    ..Kind::PLAIN
};

fn lifecycle_modes(spec: &mut Object) {
    if spec.get("volumeLifecycleModes").is_none_or(is_zero) {
        spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
    }
}

fn spec(at: &At<'_>) {
    let period = at.get("nodeAllocatableUpdatePeriodSeconds");
    if period.int().is_some_and(|n| n < 10) {
        period.invalid("must be greater than or equal to 10 seconds");
    }
    at.get("fsGroupPolicy").one_of(&["File", "None", "ReadWriteOnceWithFSType"]);
    let mut audiences = HashSet::new();
    for request in at.get("tokenRequests").items() {
        let audience = request.get("audience");
        if !audiences.insert(audience.str()) {
            audience.duplicate();
        }
        let expiration = request.get("expirationSeconds");
        if expiration.int().is_some_and(|n| n < 600) {
            expiration.invalid("may not specify a duration less than 10 minutes");
        } else if expiration.int().is_some_and(|n| n > 1 << 32) {
            expiration.invalid("may not specify a duration larger than 2^32 seconds");
        }
    }
    let modes = at.get("volumeLifecycleModes");
    for mode in modes.strings().into_iter().filter(|mode| !matches!(*mode, "Ephemeral" | "Persistent")) {
        modes.push(FieldError::not_supported(modes.path(), mode, &["Persistent", "Ephemeral"]));
    }
}
