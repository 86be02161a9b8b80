//! Lists, maps and objects that an expression makes.

use std::sync::Arc;

use super::{Run, name, shown};
use crate::{
    cost,
    program::{Entry, Field, Item},
    value::{Failure, Made, Map, Result, Val},
};

impl<'a> Run<'a, '_> {
    pub(super) fn list(&mut self, items: &'a [Item]) -> Result<Val<'a>> {
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            let value = self.node(&item.value)?;
            out.extend(given(value, item.optional)?);
        }
        self.spend(cost::LIST)?;
        Ok(Val::made(out))
    }

    pub(super) fn map(&mut self, entries: &'a [Entry]) -> Result<Val<'a>> {
        let mut made = Made::default();
        for entry in entries {
            let key = self.node(&entry.key)?;
            let value = self.node(&entry.value)?;
            let Some(value) = given(value, entry.optional)? else { continue };
            if !made.insert(key.clone(), value)? {
                return Err(Failure::new(format!("Failed with repeated key: {}", shown(&key))));
            }
        }
        self.spend(cost::MAP)?;
        Ok(Val::Map(Map::Made(Arc::new(made))))
    }

    pub(super) fn object(&mut self, of: &Arc<str>, fields: &'a [Field]) -> Result<Val<'a>> {
        let mut made = Made { of: Some(Arc::clone(of)), ..Made::default() };
        for field in fields {
            let value = self.node(&field.value)?;
            if let Some(value) = given(value, field.optional)? {
                made.insert(Val::Text(name(&field.name)), value)?;
            }
        }
        self.spend(cost::STRUCT)?;
        Ok(Val::Map(Map::Made(Arc::new(made))))
    }
}

/// The value to put in, unless it is an optional that has none.
fn given(value: Val<'_>, optional: bool) -> Result<Option<Val<'_>>> {
    match value {
        value if !optional => Ok(Some(value)),
        Val::Optional(value) => Ok(value.map(|value| (*value).clone())),
        _ => Err(Failure::overload()),
    }
}
