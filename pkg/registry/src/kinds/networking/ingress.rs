//! Ingresses.

use copepod_api::{FieldPath, names};
use serde_json::Value;

use crate::kinds::at::At;
use crate::kinds::checks::{ip, text};
use crate::kinds::core::service::balancer;
use crate::kinds::defaults::Rule::Run;
use crate::kinds::kind::Kind;

/// Ingresses.
pub(crate) static KIND: Kind = Kind {
    defaults: &[Run(balancer)],
    prepare_create: |_, new| new.as_object_mut().into_iter().for_each(balancer),
    validate: |ingress| {
        spec(&ingress.get("spec"));
        let class = ingress.at("metadata.annotations").key("kubernetes.io/ingress.class");
        let named = ingress.at("spec.ingressClassName");
        if class.present() && named.present() && class.str() != named.str() {
            let path = FieldPath::new("annotations").child("kubernetes.io/ingress.class");
            class.named(path).invalid("must match `ingressClassName` when both are specified");
        }
    },
    validate_update: Some(|new, _| spec(&new.get("spec"))),
    validate_status: |new, _| new.at("status.loadBalancer.ingress").items().for_each(|at| point(&at)),
    warnings: |new, _| {
        let annotations = new.pointer("/metadata/annotations");
        let old = annotations.is_some_and(|a| a.get("kubernetes.io/ingress.class").is_some());
        if !old || new.pointer("/spec/ingressClassName").is_some() {
            return Vec::new();
        }
        vec!["annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead".to_owned()]
    },
    ..Kind::WITH_STATUS
};

fn spec(at: &At<'_>) {
    let rules = at.get("rules");
    let backend_at = at.get("defaultBackend");
    if rules.is_empty() && !backend_at.present() {
        let shown = rules.value().cloned().unwrap_or(Value::Null);
        at.invalid_as(shown, "either `defaultBackend` or `rules` must be specified");
    }
    if backend_at.present() {
        backend(&backend_at);
    }
    for rule in rules.items() {
        let host = rule.get("host");
        if !host.is_empty() {
            if ip::parse_lenient(host.str()).is_some() {
                host.invalid("must be a DNS name, not an IP address");
            }
            host_name(&host);
        }
        let http = rule.get("http");
        if http.present() {
            http.get("paths").need();
            http.get("paths").items().for_each(|at| path(&at));
        }
    }
    for tls in at.get("tls").items() {
        tls.get("hosts").items().for_each(|host| host_name(&host));
        let secret = tls.get("secretName");
        if !secret.is_empty() {
            secret.text(names::dns1123_subdomain);
        }
    }
    at.get("ingressClassName").text(names::dns1123_subdomain);
}

fn host_name(at: &At<'_>) {
    let check = if at.str().contains('*') { text::wildcard_subdomain } else { names::dns1123_subdomain };
    at.invalid_all(check(at.str()));
}

fn path(at: &At<'_>) {
    let (kind, path) = (at.get("pathType"), at.get("path"));
    let absolute = || {
        if !path.str().starts_with('/') {
            path.invalid_as(path.str(), "must be an absolute path");
        }
    };
    match kind.str() {
        "" if !kind.present() => return kind.required("pathType must be specified"),
        "Exact" | "Prefix" => {
            absolute();
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.str().contains(part) {
                    path.invalid(format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if path.str().ends_with(end) {
                    path.invalid(format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() {
                absolute();
            }
        }
        _ => kind.not_supported(&["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(&at.get("backend"));
}

fn backend(at: &At<'_>) {
    let (resource, service) = (at.get("resource"), at.get("service"));
    match (resource.present(), service.present()) {
        (true, true) => at.invalid_as("", "cannot set both resource and service backends"),
        (true, false) => {
            resource.get("apiGroup").text(names::dns1123_subdomain);
            for field in ["kind", "name"] {
                if resource.get(field).need() {
                    resource.get(field).text(names::path_segment);
                }
            }
        }
        (false, true) => service_backend(at, &service),
        (false, false) => at.invalid_as("", "resource or service backend is required"),
    }
}

fn service_backend(at: &At<'_>, service: &At<'_>) {
    if service.get("name").need() {
        service.get("name").text(names::dns1123_label);
    }
    let (name, number) = (service.at("port.name"), service.at("port.number"));
    match (!name.is_empty(), number.int().unwrap_or(0) != 0) {
        (true, true) => at.invalid_as("", "cannot set both port name & port number"),
        (true, false) => name.text(text::port_name),
        (false, true) => text::port(&number),
        (false, false) => at.required("port name or number is required"),
    }
}

fn point(at: &At<'_>) {
    let (address, host) = (at.get("ip"), at.get("hostname"));
    if !address.is_empty() {
        ip::address(&address, &[]);
    }
    if !host.is_empty() {
        host.text(names::dns1123_subdomain);
        if ip::parse_lenient(host.str()).is_some() {
            host.invalid("must be a DNS name, not an IP address");
        }
    }
}
