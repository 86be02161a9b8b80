//! `/healthz`, `/livez`, `/readyz`: named checks, listed on `?verbose`.

use std::sync::atomic::{AtomicBool, Ordering};

use http::Response;

use crate::body::Body;
use crate::request::Query;
use crate::respond;

/// Checks of the server's own state; true is well.
#[derive(Debug)]
pub(crate) struct Health {
    checks: Vec<(&'static str, AtomicBool)>,
}

/// The store answers.
pub(crate) const ETCD: &str = "etcd";
/// System objects are in place.
pub(crate) const BOOTSTRAP: &str = "poststarthook/rbac/bootstrap-roles";
/// The system namespaces are in place.
pub(crate) const NAMESPACES: &str = "poststarthook/start-system-namespaces-controller";
/// The server is not about to stop.
pub(crate) const SHUTDOWN: &str = "shutdown";

impl Default for Health {
    fn default() -> Self {
        let check = |name, well| (name, AtomicBool::new(well));
        Self {
            checks: vec![
                check("ping", true),
                check("log", true),
                check(ETCD, false),
                check(NAMESPACES, false),
                check(BOOTSTRAP, false),
                check(SHUTDOWN, true),
            ],
        }
    }
}

impl Health {
    /// Records the state of a check.
    pub(crate) fn set(&self, name: &str, well: bool) {
        if let Some((_, state)) = self.checks.iter().find(|(n, _)| *n == name) {
            state.store(well, Ordering::Relaxed);
        }
    }

    /// Answers `/healthz[/<check>]` and its siblings.
    pub(crate) fn answer(&self, path: &str, query: &Query) -> Option<Response<Body>> {
        let mut parts = path.trim_matches('/').splitn(2, '/');
        let endpoint = parts.next().filter(|e| matches!(*e, "healthz" | "livez" | "readyz"))?;
        let only = parts.next().unwrap_or_default();
        let excluded: Vec<&str> = query.all("exclude").collect();
        let mut lines = String::new();
        let mut failed = Vec::new();
        let mut found = only.is_empty();
        for (name, state) in &self.checks {
            // Liveness must not restart the server for what only readiness means.
            if (endpoint != "readyz" && *name == SHUTDOWN) || !(only.is_empty() || only == *name) {
                continue;
            }
            found = true;
            if excluded.contains(name) {
                lines.push_str(&format!("[+]{name} excluded: ok\n"));
            } else if state.load(Ordering::Relaxed) {
                lines.push_str(&format!("[+]{name} ok\n"));
            } else {
                lines.push_str(&format!("[-]{name} failed: reason withheld\n"));
                failed.push(*name);
            }
        }
        if !found {
            return None;
        }
        Some(if !failed.is_empty() {
            respond::text(500, format!("{lines}{endpoint} check failed\n"))
        } else if query.get("verbose").is_some() {
            respond::text(200, format!("{lines}{endpoint} check passed\n"))
        } else {
            respond::text(200, "ok")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_checks_are_named() {
        let health = Health::default();
        let code =
            |path: &str, query: &str| health.answer(path, &Query::parse(query)).map(|r| r.status().as_u16());
        assert_eq!(code("/readyz", ""), Some(500));
        for name in [ETCD, BOOTSTRAP, NAMESPACES] {
            health.set(name, true);
        }
        assert_eq!(code("/readyz", "verbose"), Some(200));
        health.set(SHUTDOWN, false);
        assert_eq!(code("/readyz", ""), Some(500));
        assert_eq!(code("/readyz", "exclude=shutdown"), Some(200));
        assert_eq!(code("/livez", ""), Some(200));
        assert_eq!(code("/livez/etcd", ""), Some(200));
        assert_eq!(code("/livez/nothing", ""), None);
        assert_eq!(code("/other", ""), None);
    }
}
