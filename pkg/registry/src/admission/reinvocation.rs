//! The second round of mutating admission: a plugin whose output others should see again asks for it
//! (`reinvocationPolicy: IfNeeded` of webhooks and policies).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

/// What the mutating plugins of one request remember between its two rounds.
#[derive(Debug, Default)]
pub struct Reinvocation(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    second: bool,
    wanted: bool,
    plugins: BTreeMap<&'static str, Rounds>,
}

/// What one plugin remembers: which of its webhooks (or policies) ran, and what came out.
#[derive(Debug, Default)]
pub struct Rounds {
    last: Option<Value>,
    invoked: BTreeSet<String>,
    again: BTreeSet<String>,
}

impl Reinvocation {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the second round.
    #[must_use]
    pub fn is_second(&self) -> bool {
        self.state().second
    }

    /// Asks for a second round.
    pub fn want(&self) {
        self.state().wanted = true;
    }

    /// Starts the second round, if any plugin asked for it; whether it did.
    pub(super) fn start_second(&self) -> bool {
        let mut state = self.state();
        state.second = state.wanted;
        state.second
    }

    /// Reads or changes what a plugin remembers.
    pub fn with<T>(&self, plugin: &'static str, work: impl FnOnce(&mut Rounds) -> T) -> T {
        work(self.state().plugins.entry(plugin).or_default())
    }
}

impl Rounds {
    /// Whether the object is another than the plugin last left behind.
    #[must_use]
    pub fn changed_since(&self, object: &Value) -> bool {
        self.last.as_ref() != Some(object)
    }

    /// Remembers what the plugin leaves behind.
    pub fn leave(&mut self, object: &Value) {
        self.last = Some(object.clone());
    }

    /// Notes that `id` ran and is to run again if something changes after it.
    pub fn invoked(&mut self, id: &str) {
        self.invoked.insert(id.to_owned());
    }

    /// Something changed: all that ran before and may run again, must.
    pub fn require_previous(&mut self) {
        self.again.append(&mut self.invoked);
    }

    /// Whether `id` must run in the second round.
    #[must_use]
    pub fn runs_again(&self, id: &str) -> bool {
        self.again.contains(id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_ran_before_the_change_runs_again() {
        let rounds = Reinvocation::default();
        rounds.with("hooks", |r| r.invoked("a"));
        rounds.with("hooks", Rounds::require_previous);
        rounds.with("hooks", |r| r.invoked("b"));
        assert!(!rounds.start_second());
        rounds.want();
        assert!(rounds.start_second() && rounds.is_second());
        assert!(rounds.with("hooks", |r| r.runs_again("a") && !r.runs_again("b")));
        rounds.with("hooks", |r| r.leave(&json!({"x": 1})));
        assert!(rounds.with("hooks", |r| !r.changed_since(&json!({"x": 1})) && r.changed_since(&json!({}))));
    }
}
