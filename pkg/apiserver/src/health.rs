//! `/healthz`, `/livez`, `/readyz`: named checks, listed on `?verbose`.

use std::sync::atomic::{AtomicBool, Ordering};

use copepod_api::field::quote;
use http::Response;

use crate::body::Body;
use crate::request::Query;
use crate::respond;

/// Checks of the server's own state; true is well.
#[derive(Debug)]
pub(crate) struct Health {
    checks: [(&'static str, Stage, AtomicBool); CHECKS.len()],
}

/// Who asks for checks: anybody, who restarts, who sends requests.
const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

/// What has to be in place; each has the names of upstream's checks that it makes true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The process runs.
    Process,
    /// The store answers, and all of it has been read.
    Store,
    /// The system namespaces are there.
    Namespaces,
    /// The system's roles are there.
    Roles,
    /// The objects of priorities are there.
    Priorities,
    /// What aggregated servers need is published.
    Authentication,
    /// The server's own Service is there.
    Service,
    /// The server is not about to stop.
    Running,
}

/// The checks in upstream's order.
const CHECKS: [(&str, Stage); 16] = [
    ("ping", Stage::Process),
    ("log", Stage::Process),
    ("etcd", Stage::Store),
    ("etcd-readiness", Stage::Store),
    ("informer-sync", Stage::Store),
    ("poststarthook/generic-apiserver-start-informers", Stage::Store),
    ("poststarthook/crd-informer-synced", Stage::Store),
    ("poststarthook/storage-readiness", Stage::Store),
    ("poststarthook/start-system-namespaces-controller", Stage::Namespaces),
    ("poststarthook/rbac/bootstrap-roles", Stage::Roles),
    ("poststarthook/scheduling/bootstrap-system-priority-classes", Stage::Priorities),
    ("poststarthook/priority-and-fairness-config-producer", Stage::Priorities),
    ("poststarthook/start-cluster-authentication-info-controller", Stage::Authentication),
    ("poststarthook/start-legacy-token-tracking-controller", Stage::Authentication),
    ("poststarthook/bootstrap-controller", Stage::Service),
    ("shutdown", Stage::Running),
];

/// Checks of readiness alone: liveness must not restart the server for them.
const READINESS: [&str; 3] = ["etcd-readiness", "informer-sync", "shutdown"];

impl Default for Health {
    fn default() -> Self {
        let well = |stage| matches!(stage, Stage::Process | Stage::Running);
        Self { checks: CHECKS.map(|(name, stage)| (name, stage, AtomicBool::new(well(stage)))) }
    }
}

impl Health {
    /// Records the state of a stage.
    pub(crate) fn set(&self, stage: Stage, well: bool) {
        self.checks.iter().filter(|(_, of, _)| *of == stage).for_each(|(.., state)| {
            state.store(well, Ordering::Relaxed);
        });
    }

    /// The paths of all checks, by themselves and together.
    pub(crate) fn paths(&self) -> impl Iterator<Item = String> {
        ENDPOINTS.into_iter().flat_map(|endpoint| {
            let names = self.checks_of(endpoint).map(move |(name, _)| format!("/{endpoint}/{name}"));
            std::iter::once(format!("/{endpoint}")).chain(names)
        })
    }

    fn checks_of(&self, endpoint: &str) -> impl Iterator<Item = (&'static str, &AtomicBool)> {
        let ready = endpoint == "readyz";
        let checks = self.checks.iter().filter(move |(name, ..)| ready || !READINESS.contains(name));
        checks.map(|(name, _, state)| (*name, state))
    }

    /// Answers `/healthz[/<check>]` and its siblings.
    pub(crate) fn answer(&self, path: &str, query: &Query) -> Option<Response<Body>> {
        let mut parts = path.trim_matches('/').splitn(2, '/');
        let endpoint = parts.next().filter(|e| ENDPOINTS.contains(e))?;
        match parts.next() {
            None => Some(self.all(endpoint, query)),
            Some(only) => self.checks_of(endpoint).find(|(name, _)| *name == only).map(one),
        }
    }

    fn all(&self, endpoint: &str, query: &Query) -> Response<Body> {
        let excluded: Vec<&str> = query.all("exclude").collect();
        let mut lines = String::new();
        let mut failed = false;
        for (name, state) in self.checks_of(endpoint) {
            if excluded.contains(&name) {
                lines.push_str(&format!("[+]{name} excluded: ok\n"));
            } else if state.load(Ordering::Relaxed) {
                lines.push_str(&format!("[+]{name} ok\n"));
            } else {
                lines.push_str(&format!("[-]{name} failed: reason withheld\n"));
                failed = true;
            }
        }
        let known = |name: &&str| self.checks_of(endpoint).any(|(known, _)| known == *name);
        let unknown: Vec<String> = excluded.iter().filter(|name| !known(name)).map(|n| quote(n)).collect();
        if !unknown.is_empty() {
            let names = unknown.join(", ");
            lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
        }
        if failed {
            respond::text(500, format!("{lines}{endpoint} check failed\n"))
        } else if query.get("verbose").is_some() {
            respond::text(200, format!("{lines}{endpoint} check passed\n"))
        } else {
            respond::text(200, "ok")
        }
    }
}

/// The answer of one check.
fn one((name, state): (&'static str, &AtomicBool)) -> Response<Body> {
    if state.load(Ordering::Relaxed) {
        respond::with_type(200, respond::TEXT, "ok")
    } else {
        respond::text(500, format!("internal server error: {name} is not ready\n"))
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
        let stages = [
            Stage::Store,
            Stage::Namespaces,
            Stage::Roles,
            Stage::Priorities,
            Stage::Authentication,
            Stage::Service,
        ];
        for stage in stages {
            health.set(stage, true);
        }
        assert_eq!(code("/readyz", "verbose"), Some(200));
        health.set(Stage::Running, false);
        assert_eq!(code("/readyz", ""), Some(500));
        assert_eq!(code("/readyz", "exclude=shutdown"), Some(200));
        assert_eq!(code("/livez", ""), Some(200));
        assert_eq!(code("/livez/etcd", ""), Some(200));
        assert_eq!(code("/livez/nothing", ""), None);
        assert_eq!(code("/other", ""), None);
    }
}
