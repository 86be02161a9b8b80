//! Stateful sets.

use serde_json::json;

use crate::kinds::defaults::{
    Lit::{I, Map, S},
    Object,
    Rule::{Each, In, Nil, Run, Zero},
    fill, map_mut, text,
};
use crate::kinds::core::persistentvolumeclaim::CLAIM;
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::TEMPLATE;

/// Stateful sets.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        In(
            &["spec"],
            &[
                Zero("podManagementPolicy", S("OrderedReady")),
                Run(strategy),
                Nil("persistentVolumeClaimRetentionPolicy", Map),
                In(
                    &["persistentVolumeClaimRetentionPolicy"],
                    &[Zero("whenDeleted", S("Retain")), Zero("whenScaled", S("Retain"))],
                ),
                Nil("replicas", I(1)),
                Nil("revisionHistoryLimit", I(10)),
                Each(
                    &["volumeClaimTemplates"],
                    &[Zero("apiVersion", S("v1")), Zero("kind", S("PersistentVolumeClaim"))],
                ),
                Each(&["volumeClaimTemplates"], CLAIM),
            ],
        ),
        In(&["spec"], TEMPLATE),
    ],
    ..Kind::WITH_STATUS
};

fn strategy(spec: &mut Object) {
    let strategy = map_mut(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        fill(strategy, "rollingUpdate", json!({}));
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(serde_json::Value::as_object_mut)
    {
        fill(rolling, "partition", 0);
        fill(rolling, "maxUnavailable", 1);
    }
}
