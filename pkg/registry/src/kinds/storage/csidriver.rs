//! CSI drivers.

use serde_json::json;

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
    unconditional_update: false,
    generation: true,
    ..Kind::PLAIN
};

fn lifecycle_modes(spec: &mut Object) {
    if spec.get("volumeLifecycleModes").is_none_or(is_zero) {
        spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
    }
}
