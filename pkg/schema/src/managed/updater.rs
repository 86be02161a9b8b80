//! The bookkeeping of ownership: who loses, gains and keeps fields when an object changes.

use serde_json::Value;

use super::{
    Versions,
    atom::Type,
    entries::{Entry, ManagerId, Managers},
    fieldset::FieldSet,
    merge::{self, Comparison},
    path::PathElement,
    typed,
};
use crate::node::SchemaRef;

/// What every step needs to know of the request.
pub(super) struct Step<'a> {
    pub(super) schema: SchemaRef<'a>,
    pub(super) api_version: &'a str,
    pub(super) ignored: &'a FieldSet,
    pub(super) versions: &'a dyn Versions,
}

/// A path that somebody else owns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Conflict {
    pub(super) owner: ManagerId,
    pub(super) path: Vec<PathElement>,
}

/// Why an operation stops.
#[derive(Debug)]
pub(super) enum Stop {
    Conflicts(Vec<Conflict>),
    Failed(String),
}

impl Step<'_> {
    const fn type_(&self) -> Type<'_> {
        Type::of(self.schema)
    }

    fn compare(&self, old: &Value, new: &Value) -> Result<Comparison, Stop> {
        merge::compare(old, new, self.type_()).map_err(|errors| {
            Stop::Failed(format!("failed to compare objects: {}", typed::error_text(&errors)))
        })
    }

    /// The comparison in another version; none when that version is gone.
    fn compare_at(&self, old: &Value, new: &Value, api_version: &str) -> Result<Option<Comparison>, Stop> {
        let (Some((old, schema)), Some((new, _))) =
            (self.versions.convert(old, api_version), self.versions.convert(new, api_version))
        else {
            return Ok(None);
        };
        merge::compare(&old, &new, Type::of(schema)).map(Some).map_err(|errors| {
            Stop::Failed(format!("failed to compare objects: {}", typed::error_text(&errors)))
        })
    }

    /// Takes what changed from all managers but the acting one. Unforced, changes to what others own are conflicts.
    fn transfer(
        &self,
        old: &Value,
        new: &Value,
        managers: &mut Managers,
        acting: &ManagerId,
        force: bool,
    ) -> Result<Comparison, Stop> {
        let comparison = self.compare(old, new)?.without(self.ignored);
        let mut conflicts = Vec::new();
        let mut losses: Vec<(ManagerId, FieldSet)> = Vec::new();
        let mut gone = Vec::new();
        for (id, entry) in managers.entries.iter().filter(|(id, _)| *id != acting) {
            let other;
            let changed = if entry.api_version == self.api_version {
                &comparison
            } else if let Some(found) = self.compare_at(old, new, &entry.api_version)? {
                other = found;
                &other
            } else {
                gone.push(id.clone());
                continue;
            };
            let contested = entry.set.intersection(&changed.modified.union(&changed.added));
            let paths = contested.paths();
            conflicts.extend(paths.into_iter().map(|path| Conflict { owner: id.clone(), path }));
            losses.push((id.clone(), contested.union(&changed.removed)));
        }
        if !force && !conflicts.is_empty() {
            return Err(Stop::Conflicts(conflicts));
        }
        for id in gone {
            managers.entries.remove(&id);
        }
        for (id, loss) in losses {
            managers.subtract(&id, &loss);
        }
        managers.entries.retain(|_, entry| !entry.set.is_empty());
        Ok(comparison)
    }

    /// Gives the acting manager everything that differs.
    pub(super) fn update(
        &self,
        old: &Value,
        new: &Value,
        managers: &mut Managers,
        acting: &ManagerId,
    ) -> Result<(), Stop> {
        for (object, what) in [(new, "new"), (old, "live")] {
            let errors = typed::validate(object, self.type_(), true);
            if !errors.is_empty() {
                let text = typed::error_text(&errors);
                return Err(Stop::Failed(format!("failed to convert {what} object to smd typed: {text}")));
            }
        }
        let changed = self.transfer(old, new, managers, acting, true)?;
        let owned = managers.entries.get(acting).map(|entry| entry.set.clone()).unwrap_or_default();
        let set = owned.difference(&changed.removed).union(&changed.modified).union(&changed.added);
        let set = set.recursive_difference(self.ignored);
        managers.entries.remove(acting);
        if !set.is_empty() {
            let entry = Entry { set, api_version: self.api_version.to_owned(), time: None };
            managers.entries.insert(acting.clone(), entry);
        }
        Ok(())
    }

    /// Merges a configuration into the live object and gives the acting manager exactly what it sets; what it alone
    /// owned and no longer sets is removed.
    pub(super) fn apply(
        &self,
        live: &Value,
        config: &Value,
        managers: &mut Managers,
        acting: &ManagerId,
        force: bool,
    ) -> Result<Value, Stop> {
        let merged = merge::merge(live, config, self.type_())
            .map_err(|errors| {
                Stop::Failed(format!("failed to merge config: {}", typed::error_text(&errors)))
            })?
            .unwrap_or(Value::Null);
        let last = managers.entries.get(acting).cloned();
        let set = typed::field_set(config, self.type_()).recursive_difference(self.ignored);
        let time = last.as_ref().and_then(|entry| entry.time.clone());
        let entry = Entry { set, api_version: self.api_version.to_owned(), time };
        managers.entries.insert(acting.clone(), entry);
        let new = match last.filter(|entry| !entry.set.is_empty()) {
            Some(last) => self.prune(merged, managers, &last),
            None => merged,
        };
        self.transfer(live, &new, managers, acting, force)?;
        Ok(new)
    }

    /// Removes from the merged object what the last configuration set and nobody owns any more.
    fn prune(&self, merged: Value, managers: &Managers, last: &Entry) -> Value {
        let mut versions: Vec<&str> =
            managers.entries.values().map(|entry| entry.api_version.as_str()).collect();
        versions.sort_by_key(|version| (*version != last.api_version, version.to_owned()));
        versions.dedup();
        let Some((merged_then, schema)) = self.at(&merged, &last.api_version) else { return merged };
        let type_ = Type::of(schema);
        let mut pruned =
            typed::remove(&merged_then, type_, &typed::with_named_fields(&last.set, Some(type_)));
        for version in versions {
            let owned = managers.entries.values().filter(|entry| entry.api_version == version);
            let owned = owned.fold(FieldSet::default(), |all, entry| all.union(&entry.set));
            pruned = self.keep_owned(&merged_then, pruned, &owned, version, &last.api_version);
        }
        // Items that only exist in the merged object because others refer to fields below them stay.
        let named = |set: &FieldSet| typed::with_named_fields(set, Some(type_));
        let pruned_set = named(&typed::field_set(&pruned, type_));
        let merged_set = named(&typed::field_set(&merged_then, type_));
        let gone = merged_set.difference(&pruned_set).intersection(&named(&last.set));
        let result = typed::remove(&merged_then, type_, &gone);
        self.back(result, &last.api_version).unwrap_or(merged)
    }

    /// The pruned object with what managers at `version` own added back.
    fn keep_owned(
        &self,
        merged: &Value,
        pruned: Value,
        owned: &FieldSet,
        version: &str,
        base: &str,
    ) -> Value {
        let step = |object: &Value| {
            if version == base { self.at(object, version) } else { self.versions.convert(object, version) }
        };
        let (Some((merged, schema)), Some((before, _))) = (step(merged), step(&pruned)) else {
            return pruned;
        };
        let type_ = Type::of(schema);
        let named = |set: &FieldSet| typed::with_named_fields(set, Some(type_));
        let merged_set = named(&typed::field_set(&merged, type_));
        let pruned_set = named(&typed::field_set(&before, type_));
        let gone = merged_set.difference(&pruned_set.union(&named(owned)));
        let kept = typed::remove(&merged, type_, &gone);
        if version == base {
            return kept;
        }
        self.versions.convert(&kept, base).map_or(pruned, |(object, _)| object)
    }

    /// An object of this request's version in `version`, with that version's schema.
    fn at<'v>(&'v self, object: &Value, version: &str) -> Option<(Value, SchemaRef<'v>)> {
        let same = object.get("apiVersion").and_then(Value::as_str).is_none_or(|given| given == version);
        if version == self.api_version && same {
            return Some((object.clone(), self.schema));
        }
        self.versions.convert(object, version)
    }

    fn back(&self, object: Value, version: &str) -> Option<Value> {
        if version == self.api_version {
            return Some(object);
        }
        self.versions.convert(&object, self.api_version).map(|(object, _)| object)
    }
}
