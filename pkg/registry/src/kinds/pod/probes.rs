//! Probes and lifecycle handlers.

use super::container::Around;
use crate::kinds::at::At;
use crate::kinds::checks::text;

/// The three probes of a container.
pub(crate) fn all(container: &At<'_>, around: &Around<'_>) {
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let at = container.get(kind);
        if !at.present() {
            continue;
        }
        probe(&at, around);
        if kind == "readinessProbe" {
            if at.get("terminationGracePeriodSeconds").present() {
                at.get("terminationGracePeriodSeconds").invalid("must not be set for readinessProbes");
            }
        } else if at.get("successThreshold").int() != Some(1) {
            at.get("successThreshold").invalid("must be 1");
        }
    }
}

fn probe(at: &At<'_>, around: &Around<'_>) {
    handler(at, &["exec", "httpGet", "tcpSocket", "grpc"], around);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        at.get(field).not_negative();
    }
    let grace = at.get("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|n| n <= 0) {
        grace.invalid("must be greater than 0");
    }
}

/// `lifecycle` of a container.
pub(crate) fn lifecycle(at: &At<'_>, around: &Around<'_>) {
    for hook in ["postStart", "preStop"] {
        if at.get(hook).present() {
            handler(&at.get(hook), &["exec", "httpGet", "tcpSocket", "sleep"], around);
        }
    }
}

/// Exactly one handler of those allowed.
fn handler(at: &At<'_>, allowed: &[&str], around: &Around<'_>) {
    let mut found = 0;
    for kind in allowed.iter().filter(|kind| at.get(kind).present()) {
        let action = at.get(kind);
        found += 1;
        if found > 1 {
            action.forbidden("may not specify more than 1 handler type");
            continue;
        }
        match *kind {
            "exec" => {
                action.get("command").need();
            }
            "httpGet" => http_get(&action),
            "tcpSocket" => text::port_or_name(&action.get("port")),
            "grpc" => text::port(&action.get("port")),
            _ => sleep(&action, around),
        }
    }
    if found == 0 {
        at.required("must specify a handler type");
    }
}

fn sleep(at: &At<'_>, around: &Around<'_>) {
    let seconds = at.get("seconds").int().unwrap_or(0);
    if let Some(grace) = around.spec.get("terminationGracePeriodSeconds").int()
        && !(0..=grace).contains(&seconds)
    {
        at.invalid_as(
            seconds,
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})"),
        );
    }
}

fn http_get(at: &At<'_>) {
    at.get("path").need();
    text::port_or_name(&at.get("port"));
    let schemes = &["HTTP", "HTTPS"];
    if !schemes.contains(&at.get("scheme").str()) {
        at.get("scheme").not_supported(schemes);
    }
    for header in at.get("httpHeaders").items() {
        let name = header.get("name").str();
        for error in text::http_header(name) {
            at.get("httpHeaders").invalid_as(name, error);
        }
    }
}
