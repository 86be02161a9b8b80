//! Access, certificates, admission, disruption and flow control.

use copepod_api::meta;
use serde_json::Value;

use super::cells::{age, count, int, labels, list, scalar, selector, text, text_or};
use super::duration::human_duration;
use super::rows::Printer;

/// Pod disruption budgets.
pub(super) static BUDGETS: Printer =
    Printer::new("Name|Min Available|Max Unavailable|Allowed Disruptions:integer|Age", |cx, object| {
        let of = |pointer| scalar(object, pointer).unwrap_or_else(|| "N/A".to_owned()).into();
        vec![
            meta::name(object).into(),
            of("/spec/minAvailable"),
            of("/spec/maxUnavailable"),
            int(object, "/status/disruptionsAllowed").into(),
            age(cx.now, object),
        ]
    });

/// Role bindings and cluster role bindings.
pub(super) static BINDINGS: Printer =
    Printer::new("Name|Role|Age|Users*|Groups*|ServiceAccounts*", |cx, object| {
        let of = |kind: &str| {
            let subjects = list(object, "/subjects").iter().filter(|s| text(s, "/kind") == kind);
            let names = subjects.map(|s| match kind {
                "ServiceAccount" => format!("{}/{}", text(s, "/namespace"), text(s, "/name")),
                _ => text(s, "/name").to_owned(),
            });
            names.collect::<Vec<_>>().join(", ").into()
        };
        vec![
            meta::name(object).into(),
            format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name")).into(),
            age(cx.now, object),
            of("User"),
            of("Group"),
            of("ServiceAccount"),
        ]
    });

/// Certificate signing requests.
pub(super) static SIGNING_REQUESTS: Printer =
    Printer::new("Name|Age|SignerName|Requestor|RequestedDuration|Condition", |cx, object| {
        let wanted = object.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
        vec![
            meta::name(object).into(),
            age(cx.now, object),
            text_or(object, "/spec/signerName", "<none>").into(),
            text(object, "/spec/username").into(),
            wanted.map_or_else(|| "<none>".to_owned(), human_duration).into(),
            signing_state(object).into(),
        ]
    });

fn signing_state(request: &Value) -> String {
    let has = |kind| list(request, "/status/conditions").iter().any(|c| text(c, "/type") == kind);
    let decision = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if text(request, "/status/certificate").is_empty() { "" } else { ",Issued" };
    format!("{decision}{failed}{issued}")
}

/// Cluster trust bundles.
pub(super) static TRUST_BUNDLES: Printer = Printer::new("Name|SignerName", |_, object| {
    vec![meta::name(object).into(), text_or(object, "/spec/signerName", "<none>").into()]
});

/// Pod certificate requests.
pub(super) static POD_CERTIFICATES: Printer = Printer::new(
    "Name|PodName|ServiceAccountName|NodeName|SignerName|State|UnverifiedUserAnnotations*",
    |_, object| {
        let state = list(object, "/status/conditions")
            .iter()
            .map(|c| text(c, "/type"))
            .rfind(|kind| matches!(*kind, "Issued" | "Denied" | "Failed"));
        let of = |field: &str| text(object, &format!("/spec/{field}")).into();
        vec![
            meta::name(object).into(),
            of("podName"),
            of("serviceAccountName"),
            of("nodeName"),
            of("signerName"),
            state.unwrap_or("Pending").into(),
            labels(object.pointer("/spec/unverifiedUserAnnotations")),
        ]
    },
);

/// Webhook configurations.
pub(super) static WEBHOOKS: Printer = Printer::new("Name|Webhooks:integer|Age", |cx, object| {
    vec![meta::name(object).into(), count(object, "/webhooks").into(), age(cx.now, object)]
});

fn param_kind(object: &Value) -> String {
    object
        .pointer("/spec/paramKind")
        .filter(|k| !k.is_null())
        .map_or_else(|| "<unset>".to_owned(), |k| format!("{}/{}", text(k, "/apiVersion"), text(k, "/kind")))
}

/// Validating admission policies.
pub(super) static VALIDATING: Printer =
    Printer::new("Name|Validations:integer|ParamKind|Age", |cx, object| {
        let rules = count(object, "/spec/validations");
        vec![meta::name(object).into(), rules.into(), param_kind(object).into(), age(cx.now, object)]
    });

/// Mutating admission policies.
pub(super) static MUTATING: Printer = Printer::new("Name|Mutations:integer|ParamKind|Age", |cx, object| {
    let rules = count(object, "/spec/mutations");
    vec![meta::name(object).into(), rules.into(), param_kind(object).into(), age(cx.now, object)]
});

/// Bindings of admission policies.
pub(super) static POLICY_BINDINGS: Printer = Printer::new("Name|PolicyName|ParamRef|Age", |cx, object| {
    let reference = object.pointer("/spec/paramRef").filter(|r| !r.is_null());
    let param = match reference {
        Some(r) if !text(r, "/name").is_empty() => {
            format!("{}/{}", text_or(r, "/namespace", "*"), text(r, "/name"))
        }
        Some(r) if r.get("selector").is_some() => selector(r.get("selector")),
        _ => "<unset>".to_owned(),
    };
    vec![
        meta::name(object).into(),
        text(object, "/spec/policyName").into(),
        param.into(),
        age(cx.now, object),
    ]
});

/// Flow schemas, in the order they match.
pub(super) static FLOW_SCHEMAS: Printer = Printer {
    order: |objects| {
        let mut order: Vec<usize> = (0..objects.len()).collect();
        order.sort_by_key(|i| (int(objects[*i], "/spec/matchingPrecedence"), meta::name(objects[*i])));
        order
    },
    ..Printer::new("Name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL", |cx, object| {
        let dangling = list(object, "/status/conditions").iter().find(|c| text(c, "/type") == "Dangling");
        vec![
            meta::name(object).into(),
            text(object, "/spec/priorityLevelConfiguration/name").into(),
            int(object, "/spec/matchingPrecedence").into(),
            text_or(object, "/spec/distinguisherMethod/type", "<none>").into(),
            age(cx.now, object),
            dangling.map_or("?", |c| text(c, "/status")).into(),
        ]
    })
};

/// Priority levels.
pub(super) static PRIORITY_LEVELS: Printer =
    Printer::new("Name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age", |cx, object| {
        let of = |pointer| object.pointer(pointer).cloned().unwrap_or_else(|| "<none>".into());
        vec![
            meta::name(object).into(),
            text(object, "/spec/type").into(),
            of("/spec/limited/nominalConcurrencyShares"),
            of("/spec/limited/limitResponse/queuing/queues"),
            of("/spec/limited/limitResponse/queuing/handSize"),
            of("/spec/limited/limitResponse/queuing/queueLengthLimit"),
            age(cx.now, object),
        ]
    });
