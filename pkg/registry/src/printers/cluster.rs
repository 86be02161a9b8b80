//! Nodes, namespaces, events and other objects of the cluster itself.

use std::collections::BTreeSet;

use copepod_api::meta;
use serde_json::Value;

use super::cells::{age, condition, count, flag, int, list, map, since, text, text_or, time};
use super::rows::{Context, Printer};

/// Kinds that show name and age.
pub(super) static NAME_AND_AGE: Printer =
    Printer::new("Name|Age", |cx, object| vec![meta::name(object).into(), age(cx.now, object)]);

/// Namespaces.
pub(super) static NAMESPACES: Printer = Printer::new("Name|Status|Age", |cx, object| {
    vec![meta::name(object).into(), text(object, "/status/phase").into(), age(cx.now, object)]
});

/// Secrets.
pub(super) static SECRETS: Printer = Printer::new("Name|Type|Data|Age", |cx, object| {
    vec![
        meta::name(object).into(),
        text(object, "/type").into(),
        count(object, "/data").into(),
        age(cx.now, object),
    ]
});

/// ConfigMaps.
pub(super) static CONFIG_MAPS: Printer = Printer::new("Name|Data|Age", |cx, object| {
    let entries = count(object, "/data") + count(object, "/binaryData");
    vec![meta::name(object).into(), entries.into(), age(cx.now, object)]
});

/// Component statuses.
pub(super) static COMPONENTS: Printer = Printer::new("Name|Status|Message|Error", |_, object| {
    let healthy = list(object, "/conditions").iter().find(|c| text(c, "/type") == "Healthy");
    let status = match healthy.map(|c| text(c, "/status")) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let of = |field| healthy.map_or("", |c| text(c, field)).into();
    vec![meta::name(object).into(), status.into(), of("/message"), of("/error")]
});

/// Nodes.
pub(super) static NODES: Printer = Printer::new(
    "Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*",
    |cx, node| {
        let info = |field: &str| text_or(node, &format!("/status/nodeInfo/{field}"), "<unknown>").to_owned();
        let architecture = text(node, "/status/nodeInfo/architecture");
        let kernel = match architecture {
            "" => info("kernelVersion"),
            architecture => format!("{} ({architecture})", info("kernelVersion")),
        };
        vec![
            meta::name(node).into(),
            node_status(node).into(),
            roles(node).into(),
            age(cx.now, node),
            text(node, "/status/nodeInfo/kubeletVersion").into(),
            address(node, "InternalIP").into(),
            address(node, "ExternalIP").into(),
            info("osImage").into(),
            kernel.into(),
            info("containerRuntimeVersion").into(),
        ]
    },
);

fn node_status(node: &Value) -> String {
    let status = match condition(list(node, "/status/conditions"), "Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let closed = if flag(node, "/spec/unschedulable", false) { ",SchedulingDisabled" } else { "" };
    format!("{status}{closed}")
}

fn roles(node: &Value) -> String {
    let labels = meta::labels(node).into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { "<none>".to_owned() } else { Vec::from_iter(roles).join(",") }
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let found = list(node, "/status/addresses").iter().find(|a| text(a, "/type") == kind);
    found.map_or("<none>", |a| text(a, "/address"))
}

/// Events of both groups.
pub(super) static EVENTS: Printer =
    Printer::new("Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*", event);

fn event(cx: &Context<'_>, event: &Value) -> Vec<Value> {
    // The two groups name the same things differently.
    let either = |old: &str, new: &str| {
        Some(text(event, old)).filter(|t| !t.is_empty()).unwrap_or_else(|| text(event, new))
    };
    let when = |old: &str, new: &str| time(event, old).or_else(|| time(event, new));
    let first = when("/firstTimestamp", "/deprecatedFirstTimestamp").or_else(|| time(event, "/eventTime"));
    let mut last = when("/lastTimestamp", "/deprecatedLastTimestamp").or(first);
    let mut times = int(event, "/count").max(int(event, "/deprecatedCount")).max(1);
    if event.get("series").is_some_and(|s| !s.is_null()) {
        last = time(event, "/series/lastObservedTime");
        times = int(event, "/series/count");
    }
    let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let name = either("/involvedObject/name", "/regarding/name");
    let target = if name.is_empty() { kind } else { format!("{kind}/{name}") };
    let controller = either("/reportingComponent", "/reportingController");
    let component = Some(either("/source/component", "/deprecatedSource/component"))
        .filter(|c| !c.is_empty())
        .unwrap_or(controller);
    let host = Some(either("/source/host", "/deprecatedSource/host"))
        .filter(|h| !h.is_empty())
        .unwrap_or_else(|| text(event, "/reportingInstance"));
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    vec![
        since(cx.now, last).into(),
        text(event, "/type").into(),
        text(event, "/reason").into(),
        target.into(),
        either("/involvedObject/fieldPath", "/regarding/fieldPath").into(),
        source.into(),
        either("/message", "/note").trim().into(),
        since(cx.now, first).into(),
        times.into(),
        meta::name(event).into(),
    ]
}

/// Resource quotas.
pub(super) static QUOTAS: Printer = Printer::new("Name|Request|Limit|Age", |cx, object| {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let mut names: Vec<&String> =
        map(object, "/status/hard").into_iter().flatten().map(|(name, _)| name).collect();
    names.sort();
    for name in names {
        let of = |part: &str| {
            let amount = object.pointer(&format!("/status/{part}")).and_then(|list| list.get(name));
            amount.and_then(Value::as_str).unwrap_or("0").to_owned()
        };
        let text = format!("{name}: {}/{}", of("used"), of("hard"));
        if name.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
    }
    vec![meta::name(object).into(), requests.join(", ").into(), limits.join(", ").into(), age(cx.now, object)]
});

/// Leases.
pub(super) static LEASES: Printer = Printer::new("Name|Holder|Age", |cx, object| {
    vec![meta::name(object).into(), text(object, "/spec/holderIdentity").into(), age(cx.now, object)]
});

/// Lease candidates.
pub(super) static CANDIDATES: Printer =
    Printer::new("Name|LeaseName|BinaryVersion|EmulationVersion|Age", |cx, object| {
        let of = |field: &str| text(object, &format!("/spec/{field}")).into();
        vec![
            meta::name(object).into(),
            of("leaseName"),
            of("binaryVersion"),
            of("emulationVersion"),
            age(cx.now, object),
        ]
    });

/// Priority classes.
pub(super) static PRIORITIES: Printer =
    Printer::new("Name|Value:integer|Global-Default:boolean|Age|PreemptionPolicy", |cx, object| {
        vec![
            meta::name(object).into(),
            int(object, "/value").into(),
            flag(object, "/globalDefault", false).into(),
            age(cx.now, object),
            text(object, "/preemptionPolicy").into(),
        ]
    });

/// Runtime classes.
pub(super) static RUNTIMES: Printer = Printer::new("Name|Handler|Age", |cx, object| {
    vec![meta::name(object).into(), text(object, "/handler").into(), age(cx.now, object)]
});

/// API services.
pub(super) static API_SERVICES: Printer = Printer::new("Name|Service|Available|Age", |cx, object| {
    let service = match object.pointer("/spec/service").filter(|s| !s.is_null()) {
        Some(service) => format!("{}/{}", text(service, "/namespace"), text(service, "/name")),
        None => "Local".to_owned(),
    };
    let available = list(object, "/status/conditions").iter().find(|c| text(c, "/type") == "Available");
    let available = available.map_or_else(
        || "Unknown".to_owned(),
        |c| match text(c, "/status") {
            "True" => "True".to_owned(),
            status => format!("{status} ({})", text(c, "/reason")),
        },
    );
    vec![meta::name(object).into(), service.into(), available.into(), age(cx.now, object)]
});

/// Storage version migrations.
pub(super) static MIGRATIONS: Printer = Printer::new("Name:plain|Resource|Status", |_, object| {
    let (group, resource) = (text(object, "/spec/resource/group"), text(object, "/spec/resource/resource"));
    let target = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let state = list(object, "/status/conditions")
        .iter()
        .filter(|c| text(c, "/status") == "True")
        .map(|c| text(c, "/type"))
        .rfind(|kind| matches!(*kind, "Running" | "Failed" | "Succeeded"));
    vec![meta::name(object).into(), target.into(), state.unwrap_or("Unknown").into()]
});
