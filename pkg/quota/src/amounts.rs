//! Amounts by resource name.

use std::collections::BTreeMap;

use copepod_api::Quantity;
use serde_json::{Map, Value};

/// Amounts by resource name, ordered by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amounts(pub BTreeMap<String, Quantity>);

impl Amounts {
    /// Reads a map of quantities; what is no quantity is left out, the API server has refused it long before.
    #[must_use]
    pub fn read(map: Option<&Value>) -> Self {
        let entries = map.and_then(Value::as_object).into_iter().flatten();
        let parsed = entries.filter_map(|(name, amount)| {
            let text = match amount {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Some((name.clone(), text.parse().ok()?))
        });
        Self(parsed.collect())
    }

    /// The map as the API writes it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let entries = self.0.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_string())));
        Value::Object(entries.collect::<Map<_, _>>())
    }

    /// One amount.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// Sets one amount.
    pub fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    /// Adds `other` name by name.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            self.0.entry(name.clone()).and_modify(|mine| *mine = *mine + *amount).or_insert(*amount);
        }
    }

    /// Raises each amount to that of `other` where that is larger or the only one.
    pub fn raise_to(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let mine = self.0.entry(name.clone()).or_insert(*amount);
            if *amount > *mine {
                *mine = *amount;
            }
        }
    }

    /// What is more than in `before`, nothing being less than zero.
    #[must_use]
    pub(crate) fn increase_over(&self, before: &Self) -> Self {
        let more = self.0.iter().map(|(name, amount)| {
            let more = before.get(name).map_or(*amount, |was| *amount - was);
            (name.clone(), if more > Quantity::ZERO { more } else { Quantity::ZERO })
        });
        Self(more.collect())
    }

    /// Only the names that `keep` accepts.
    #[must_use]
    pub(crate) fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(name, _)| keep(name))
                .map(|(name, amount)| (name.clone(), *amount))
                .collect(),
        )
    }

    /// `a=1,b=2`, as in upstream's messages.
    #[must_use]
    pub(crate) fn shown(&self) -> String {
        let parts: Vec<_> = self.0.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        parts.join(",")
    }
}
