//! The `Available` condition of an APIService.

use copepod_api::field::quote;
use serde_json::{Value, json};

/// A condition without its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

impl Condition {
    fn no(reason: &'static str, message: String) -> Self {
        Self { status: "False", reason, message }
    }

    /// The server answers.
    pub(super) fn passed() -> Self {
        Self { status: "True", reason: "Passed", message: "all checks passed".to_owned() }
    }

    /// The server does not answer as it should.
    pub(super) fn failed(why: String) -> Self {
        Self::no("FailedDiscoveryCheck", why)
    }
}

/// What is wrong with a server before it is asked: its service, the port, the endpoints.
pub(super) fn obstacle(spec: &Value, service: Option<&Value>, slices: &[Value]) -> Option<Condition> {
    let text = |field: &str| spec["service"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let port = spec["service"]["port"].as_u64().unwrap_or(443);
    let at = format!("service/{name} in {}", quote(namespace));
    let Some(service) = service else {
        return Some(Condition::no("ServiceNotFound", format!("{at} is not present")));
    };
    if service["spec"]["type"].as_str().unwrap_or("ClusterIP") != "ClusterIP" {
        return None;
    }
    let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let Some(found) = ports.find(|p| p["port"].as_u64() == Some(port)) else {
        return Some(Condition::no("ServicePortError", format!("{at} is not listening on port {port}")));
    };
    let port_name = found["name"].as_str().unwrap_or_default();
    if slices.is_empty() {
        return Some(Condition::no("EndpointsNotFound", format!("cannot find endpointslices for {at}")));
    }
    if !slices.iter().any(|slice| serves(slice, port_name)) {
        let why = format!("endpointslices for {at} have no addresses with port name {}", quote(port_name));
        return Some(Condition::no("MissingEndpoints", why));
    }
    None
}

fn serves(slice: &Value, port_name: &str) -> bool {
    let list = |field: &str| slice[field].as_array().map(Vec::as_slice).unwrap_or_default();
    list("endpoints").iter().any(|e| e["conditions"]["ready"].as_bool() != Some(false))
        && list("ports")
            .iter()
            .any(|p| p["name"].as_str().unwrap_or_default() == port_name && p["port"].is_u64())
}

/// The APIService with the condition; `None` when it has it already.
pub(super) fn set(object: &Value, condition: &Condition, now: jiff::Timestamp) -> Option<Value> {
    let mut list = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let old = list.iter_mut().find(|c| c["type"] == "Available");
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut new = json!({
        "type": "Available", "status": condition.status, "reason": condition.reason, "message": condition.message,
        "lastTransitionTime": time,
    });
    match old {
        Some(old) => {
            if old["status"] == new["status"] {
                new["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            if *old == new {
                return None;
            }
            *old = new;
        }
        None => list.push(new),
    }
    let mut object = object.clone();
    object["status"]["conditions"] = list.into();
    Some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obstacles_in_upstreams_words() {
        let spec = json!({"service": {"namespace": "w", "name": "api", "port": 443}});
        let reason = |service: Option<&Value>, slices: &[Value]| obstacle(&spec, service, slices);
        let missing = reason(None, &[]).unwrap();
        assert_eq!(
            (missing.reason, missing.message.as_str()),
            ("ServiceNotFound", "service/api in \"w\" is not present")
        );
        let service = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 443, "name": "https"}]}});
        assert_eq!(reason(Some(&service), &[]).unwrap().reason, "EndpointsNotFound");
        let slice = |ready: bool| {
            json!({"ports": [{"name": "https", "port": 8443}],
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]})
        };
        assert_eq!(reason(Some(&service), &[slice(false)]).unwrap().reason, "MissingEndpoints");
        assert_eq!(reason(Some(&service), &[slice(true)]), None);
        let other = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}});
        assert_eq!(reason(Some(&other), &[]).unwrap().reason, "ServicePortError");
    }

    #[test]
    fn times_move_with_the_status_only() {
        let at = |seconds| jiff::Timestamp::from_second(seconds).unwrap();
        let first = set(&json!({}), &Condition::failed("x".to_owned()), at(0)).unwrap();
        assert_eq!(set(&first, &Condition::failed("x".to_owned()), at(9)), None);
        let second = set(&first, &Condition::failed("y".to_owned()), at(9)).unwrap();
        assert_eq!(second["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        let third = set(&second, &Condition::passed(), at(9)).unwrap();
        assert_eq!(third["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:09Z");
    }
}
