//! The rows of the built-in kinds: the generated table, the kinds' strategies, and what the store must know beside.

use std::{collections::BTreeMap, sync::Arc};

use copepod_api::{GroupVersionKind, GroupVersionResource, ResourceDef};
use copepod_schema::SchemaRef;

use crate::{
    allocation::{Allocation, service::ServiceAllocation},
    convert::Conversion,
    kinds,
    registry::RegistryConfig,
    row::{GarbagePolicy, Row, Schema},
};

/// All built-in rows.
pub(crate) fn rows(
    config: &RegistryConfig,
    services: &Arc<ServiceAllocation>,
) -> BTreeMap<GroupVersionResource, Arc<Row>> {
    let defs = copepod_schema::resources();
    let rows = defs.into_iter().filter_map(|def| row(def, config, services));
    rows.map(|row| (row.def.gvr(), Arc::new(row))).collect()
}

/// Resources whose use draws a warning (upstream's `prerelease-lifecycle` tags of what is served).
const DEPRECATED: &[(&str, &str, &str, &str)] = &[
    ("", "v1", "componentstatuses", "v1 ComponentStatus is deprecated in v1.19+"),
    ("", "v1", "endpoints", "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
];

fn deprecation(def: &ResourceDef) -> String {
    let own = |(group, version, plural, _): &&(&str, &str, &str, &str)| {
        def.group == *group && def.version == *version && def.plural == *plural
    };
    DEPRECATED.iter().find(own).map_or_else(String::new, |(.., text)| (*text).to_owned())
}

fn row(mut def: ResourceDef, config: &RegistryConfig, services: &Arc<ServiceAllocation>) -> Option<Row> {
    let schema = |gvk: &GroupVersionKind| -> Option<SchemaRef<'static>> {
        copepod_schema::builtin().kind(&gvk.group, &gvk.version, &gvk.kind)
    };
    let served = def.gvk();
    let conversion = match (def.group.as_str(), def.version.as_str(), def.plural.as_str()) {
        ("autoscaling", "v1", "horizontalpodautoscalers") => Conversion::Autoscaling,
        ("events.k8s.io", _, "events") => Conversion::Event,
        _ => Conversion::None,
    };
    let working = match conversion {
        Conversion::Autoscaling => GroupVersionKind::new(&def.group, "v2", &def.kind),
        _ => served.clone(),
    };
    let stored = match conversion {
        Conversion::Event => GroupVersionKind::new("", "v1", "Event"),
        _ => working.clone(),
    };
    let events = def.plural == "events";
    def.deprecation = deprecation(&def);
    let allocation: Option<Arc<dyn Allocation>> = match (def.group.as_str(), def.plural.as_str()) {
        ("", "services") => Some(Arc::clone(services) as Arc<dyn Allocation>),
        _ => None,
    };
    let key = (def.group.as_str(), def.plural.as_str());
    Some(Row {
        rules: None,
        schema: Schema::Builtin(schema(&served)?),
        working_schema: Schema::Builtin(schema(&working)?),
        stored_schema: Schema::Builtin(schema(&stored)?),
        stored_version: stored.api_version(),
        working,
        conversion,
        webhook: None,
        hooks: kinds::hooks_for(&def.group, &def.plural).into(),
        garbage: match key {
            ("" | "events.k8s.io", "events") => GarbagePolicy::Unsupported,
            ("", "replicationcontrollers") | ("batch", "jobs") => GarbagePolicy::OrphanDependents,
            _ => GarbagePolicy::DeleteDependents,
        },
        // A namespace goes in two steps, and the first answers with what it leaves.
        returns_deleted: def.returns_deleted || key == ("", "namespaces"),
        ttl: events.then_some(config.event_ttl),
        allocation,
        scale: None,
        complete_on_read: false,
        def: Arc::new(def),
    })
}
