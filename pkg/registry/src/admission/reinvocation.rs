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
    plugins: BTreeMap<&'static str, Memory>,
}

/// What one plugin remembers: which of its webhooks (or policies) ran, and what came out.
#[derive(Debug, Default)]
struct Memory {
    last: Option<Value>,
    invoked: BTreeSet<String>,
    again: BTreeSet<String>,
}

impl Memory {
    /// Something changed: all that ran before and may run again, must.
    fn require_previous(&mut self) {
        self.again.append(&mut self.invoked);
    }
}

/// The current round as one plugin sees it.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    all: &'a Reinvocation,
    plugin: &'static str,
}

impl Reinvocation {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current round of this plugin.
    #[must_use]
    pub fn round(&self, plugin: &'static str) -> Round<'_> {
        Round { all: self, plugin }
    }

    /// Starts the second round, if any plugin asked for it; whether it did.
    pub(super) fn start_second(&self) -> bool {
        let mut state = self.state();
        state.second = state.wanted;
        state.second
    }
}

impl Round<'_> {
    fn with<T>(&self, work: impl FnOnce(bool, &mut Memory) -> T) -> T {
        let mut state = self.all.state();
        let second = state.second;
        work(second, state.plugins.entry(self.plugin).or_default())
    }

    /// The plugin's turn begins: what others changed in the second round may concern everything that ran before.
    pub fn enter(&self, object: &Value) {
        self.with(|second, memory| {
            if second && memory.last.as_ref() != Some(object) {
                memory.require_previous();
            }
        });
    }

    /// The plugin's turn ends with this object.
    pub fn leave(&self, object: &Value) {
        self.with(|_, memory| memory.last = Some(object.clone()));
    }

    /// Whether `id` has no business in this round: the second calls nothing for the first time.
    #[must_use]
    pub fn skips(&self, id: &str) -> bool {
        self.with(|second, memory| second && !memory.again.contains(id))
    }

    /// Notes that `id` ran and is to run again if something changes after it.
    pub fn invoked(&self, id: &str) {
        self.with(|_, memory| memory.invoked.insert(id.to_owned()));
    }

    /// Something changed: all that ran before and may run again, must.
    pub fn require_previous(&self) {
        self.with(|_, memory| memory.require_previous());
    }

    /// The same, and it asks for a second round.
    pub fn changed(&self) {
        self.require_previous();
        self.all.state().wanted = true;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_ran_before_the_change_runs_again() {
        let rounds = Reinvocation::default();
        let hooks = rounds.round("hooks");
        hooks.invoked("a");
        hooks.require_previous();
        hooks.invoked("b");
        assert!(!rounds.start_second() && !hooks.skips("b"));
        hooks.leave(&json!({"x": 1}));
        rounds.round("policies").changed();
        assert!(rounds.start_second());
        hooks.enter(&json!({"x": 1}));
        assert!(!hooks.skips("a") && hooks.skips("b"));
        hooks.enter(&json!({"x": 2}));
        assert!(!hooks.skips("b"));
    }
}
