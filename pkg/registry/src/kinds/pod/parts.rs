//! Changes of a pod through its subresources: `resize` and `ephemeralcontainers`.

use serde_json::Value;

use super::{diff, resources, validate};
use crate::kinds::at::{At, same};
use crate::kinds::kind::CheckChange;

/// The check of a change through a subresource, where it is not that of the pod itself.
pub(crate) fn check(subresource: &str) -> Option<CheckChange> {
    match subresource {
        "binding" => Some(|_, _| {}),
        "ephemeralcontainers" => Some(ephemeral),
        "resize" => Some(resize),
        _ => None,
    }
}

/// Ephemeral containers are added and stay.
fn ephemeral(new: &At<'_>, old: &At<'_>) {
    if old.at("metadata.annotations").key(validate::MIRROR).present() {
        return new.forbidden("static pods do not support ephemeral containers");
    }
    validate::whole(new);
    validate::annotation_changes(new, old);
    let list = new.at("spec.ephemeralContainers");
    for was in old.at("spec.ephemeralContainers").items() {
        let name = was.get("name").str();
        match list.items().find(|c| c.is("name", name)) {
            None => list.forbidden(format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(now) if !same(now.value(), was.value()) => {
                let diff =
                    diff::render(was.value().unwrap_or(&Value::Null), now.value().unwrap_or(&Value::Null));
                list.forbidden(format!("existing ephemeral containers {name:?} may not be changed\n{diff}"));
            }
            Some(_) => {}
        }
    }
}

/// Containers ask for more or less CPU and memory.
fn resize(new: &At<'_>, old: &At<'_>) {
    if old.at("metadata.annotations").key(validate::MIRROR).present() {
        return new.forbidden("static pods cannot be resized");
    }
    let (spec, was) = (new.get("spec"), old.get("spec"));
    if was.get("os").is("name", "windows") {
        return new.forbidden("windows pods cannot be resized");
    }
    let before = new.errors();
    validate::whole(new);
    class(new, old);
    if !supported(old) {
        spec.forbidden("Pod running on node without support for resize");
    }
    pod_level(&spec, &was);
    if !in_order(&spec, &was) {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (now, was) in spec.get(list).items().zip(was.get(list).items()) {
            kept(&now.get("resources"), &was.get("resources"), "resource");
        }
    }
    containers(&spec, &was);
    if new.errors() == before && !same(Some(&munged(&spec, &was)), was.value()) {
        spec.forbidden("only cpu and memory resources are mutable");
    }
}

fn class(new: &At<'_>, old: &At<'_>) {
    let of = |pod: &At<'_>| resources::qos_class(pod.get("spec").value().unwrap_or(&Value::Null));
    let recorded = old.at("status.qosClass").str();
    let had = if recorded.is_empty() { of(old) } else { recorded };
    if had != of(new) {
        let shown = new.at("status.qosClass").str();
        new.get("spec").invalid_as(shown, "Pod QOS Class may not change as a result of resizing");
    }
}

/// Whether the node reports the resources of what runs; unknown as long as nothing does.
fn supported(pod: &At<'_>) -> bool {
    let running = pod.at("status.containerStatuses").items().find(|c| c.at("state.running").present());
    running.is_none_or(|c| c.get("resources").present())
}

fn pod_level(spec: &At<'_>, was: &At<'_>) {
    let (now, had) = (spec.get("resources"), was.get("resources"));
    if had.present() && !now.present() {
        return now.forbidden("pod-level resources cannot be removed");
    }
    kept(&now, &had, "pod-level resource");
    let rest = others(now.value(), had.value());
    if !same(rest.as_ref(), had.value()) {
        spec.forbidden("only cpu and memory resources are mutable at pod-level");
    }
}

/// Requirements may change but not go.
fn kept(now: &At<'_>, was: &At<'_>, what: &str) {
    for which in ["requests", "limits"] {
        let gone = was.get(which).entries().any(|(name, _)| !now.get(which).key(name).present());
        if gone {
            now.get(which).forbidden(format!("{what} {which} cannot be removed"));
        }
    }
}

fn in_order(spec: &At<'_>, was: &At<'_>) -> bool {
    let mut ordered = true;
    for list in ["containers", "initContainers"] {
        let (now, had) = (spec.get(list), was.get(list));
        if now.array().len() != had.array().len() {
            now.forbidden(format!("{list} may not be added or removed on resize"));
            ordered = false;
            continue;
        }
        for (now, _) in
            now.items().zip(had.items()).filter(|(now, had)| !had.is("name", now.get("name").str()))
        {
            now.get("name").forbidden(format!("{list} may not be renamed or reordered on resize"));
            ordered = false;
        }
    }
    ordered
}

fn containers(spec: &At<'_>, was: &At<'_>) {
    for (now, had) in spec.get("containers").items().zip(was.get("containers").items()) {
        if !same(Some(&container(now.value(), had.value())), had.value()) {
            spec.forbidden("only cpu and memory resources are mutable");
        }
    }
    for (now, had) in spec.get("initContainers").items().zip(was.get("initContainers").items()) {
        if !same(Some(&container(now.value(), had.value())), had.value()) {
            now.forbidden("only cpu and memory resources for init or sidecar containers are mutable");
        }
        let restarts = |policy: &At<'_>| policy.is("restartPolicy", "RestartContainer");
        if !now.is("restartPolicy", "Always")
            && !same(now.value(), had.value())
            && now.get("resizePolicy").items().any(|p| restarts(&p))
        {
            now.forbidden(
                "non-sidecar init containers with a resize policy of RestartContainer cannot be resized",
            );
        }
    }
}

/// The container with the CPU and memory of the old one.
fn container(now: Option<&Value>, was: Option<&Value>) -> Value {
    let mut container = now.cloned().unwrap_or_default();
    let old = |c: Option<&Value>| c.and_then(|c| c.get("resources")).cloned();
    let resources = others(old(now).as_ref(), old(was).as_ref());
    validate::restore(&mut container, "resources", resources);
    container
}

/// The new requirements with the old CPU and memory.
fn others(now: Option<&Value>, was: Option<&Value>) -> Option<Value> {
    if now.is_none() && was.is_none() {
        return None;
    }
    let mut merged = now.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    for which in ["requests", "limits"] {
        let old = was.and_then(|w| w.get(which));
        let mut list = merged.get(which).and_then(Value::as_object).cloned().unwrap_or_default();
        for name in ["cpu", "memory"] {
            match old.and_then(|o| o.get(name)) {
                Some(amount) => drop(list.insert(name.to_owned(), amount.clone())),
                None => drop(list.remove(name)),
            }
        }
        validate::restore(&mut merged, which, Some(list.into()).filter(|_| old.is_some() || now.is_some()));
    }
    Some(merged)
}

fn munged(spec: &At<'_>, was: &At<'_>) -> Value {
    let mut munged = spec.value().cloned().unwrap_or_default();
    for list in ["containers", "initContainers"] {
        let items = spec.get(list).items().zip(was.get(list).items());
        let items: Vec<Value> = items.map(|(now, had)| container(now.value(), had.value())).collect();
        validate::restore(&mut munged, list, Some(items.into()));
    }
    let resources = others(spec.get("resources").value(), was.get("resources").value());
    validate::restore(&mut munged, "resources", resources);
    munged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::kind::collect;

    fn pod(container: &Value) -> Value {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
        crate::hooks::Hooks::default(&&super::super::KIND, &mut pod);
        pod
    }

    fn texts(subresource: &str, new: &Value, old: &Value) -> Vec<String> {
        let check = check(subresource).unwrap();
        collect(|sink| check(&At::root(new, sink), &At::root(old, sink)))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_resize_moves_cpu_and_memory() {
        let old = pod(&json!({"name": "a", "image": "x", "resources": {"requests": {"cpu": "1"}}}));
        let mut new = pod(
            &json!({"name": "a", "image": "x", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}),
        );
        assert_eq!(texts("resize", &new, &old), [""; 0]);
        new["spec"]["containers"][0]["resources"] = json!({"requests": {"memory": "1Gi", "example.com/g": "1"},
            "limits": {"example.com/g": "1"}});
        assert_eq!(
            texts("resize", &new, &old),
            [
                "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
                "spec: Forbidden: only cpu and memory resources are mutable",
            ]
        );
    }

    #[test]
    fn ephemeral_containers_stay() {
        let container = json!({"name": "a", "image": "x"});
        let (mut old, mut new) = (pod(&container), pod(&container));
        let debug = json!([{"name": "debug", "image": "sh", "imagePullPolicy": "Always",
            "terminationMessagePolicy": "File"}]);
        new["spec"]["ephemeralContainers"] = debug.clone();
        assert_eq!(texts("ephemeralcontainers", &new, &old), [""; 0]);
        old["spec"]["ephemeralContainers"] = debug;
        new["spec"]["ephemeralContainers"] = json!([]);
        let refused = texts("ephemeralcontainers", &new, &old);
        assert!(
            refused[0].starts_with("spec.ephemeralContainers: Forbidden: existing ephemeral"),
            "{refused:?}"
        );
    }
}
