//! Deployments.

use serde_json::{Value, json};

use crate::kinds::at::same;
use crate::kinds::defaults::{
    Lit::I,
    Object,
    Rule::{In, Nil, Run},
    fill, map_mut, text,
};
use crate::kinds::kind::{Kind, spec_differs};
use crate::kinds::pod::defaults::TEMPLATE;

/// Deployments.
pub(crate) static KIND: Kind = Kind {
    defaults: &[
        In(
            &["spec"],
            &[
                Nil("replicas", I(1)),
                Run(strategy),
                Nil("revisionHistoryLimit", I(10)),
                Nil("progressDeadlineSeconds", I(600)),
            ],
        ),
        In(&["spec"], TEMPLATE),
    ],
    counts: |new, old| {
        let annotations = |object: &Value| object.pointer("/metadata/annotations").cloned();
        spec_differs(new, old) || !same(annotations(new).as_ref(), annotations(old).as_ref())
    },
    prepare_status: |_, new, old| {
        let labels = old.pointer("/metadata/labels").cloned();
        let metadata = copepod_api::meta::metadata_mut(new);
        match labels {
            Some(labels) => drop(metadata.insert("labels".to_owned(), labels)),
            None => drop(metadata.remove("labels")),
        }
    },
    ..Kind::WITH_STATUS
};

fn strategy(spec: &mut Object) {
    let strategy = map_mut(spec, "strategy");
    if text(strategy, "type").is_empty() {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
    }
    if text(strategy, "type") == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        let rolling = map_mut(strategy, "rollingUpdate");
        fill(rolling, "maxUnavailable", "25%");
        fill(rolling, "maxSurge", "25%");
    }
}
