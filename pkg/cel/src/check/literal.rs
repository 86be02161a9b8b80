//! Lists, maps and objects that an expression makes.

use std::sync::Arc;

use cel::common::ast::{EntryExpr, IdedExpr, ListExpr, MapExpr, StructExpr};

use super::{Checked, Checker, unify};
use crate::{
    program::{Entry, Field, Item, Node},
    types::Type,
    value::{Made, Val},
};

impl Checker<'_> {
    pub(super) fn list(&mut self, list: &ListExpr) -> Checked {
        let mut joined: Option<Type> = None;
        let mut same = Same::default();
        let mut items = Vec::with_capacity(list.elements.len());
        for (at, element) in list.elements.iter().enumerate() {
            let optional = list.optional_indices.contains(&at);
            let (value, of) = self.element(element, optional);
            same.check(self, element.id, &of);
            joined = Some(self.join(joined, of));
            items.push(Item { value, optional });
        }
        let item = joined.unwrap_or_else(|| self.fresh());
        (folded_list(items), Type::list(item))
    }

    /// A value of a literal, unwrapped where it is optional.
    fn element(&mut self, expr: &IdedExpr, optional: bool) -> Checked {
        let (value, of) = self.expr(expr);
        if !optional {
            return (value, of);
        }
        match self.known(&of) {
            Type::Optional(inner) => (value, (*inner).clone()),
            Type::Dyn => (value, Type::Dyn),
            other => {
                self.mismatch(expr.id, &Type::optional(other.clone()), &other);
                (value, other)
            }
        }
    }

    fn join(&mut self, before: Option<Type>, now: Type) -> Type {
        match before {
            None => now,
            Some(before) if self.mapping.assignable(&before, &now) => unify::most_general(&before, &now),
            Some(_) => Type::Dyn,
        }
    }

    pub(super) fn map(&mut self, map: &MapExpr) -> Checked {
        let (mut key_type, mut value_type): (Option<Type>, Option<Type>) = (None, None);
        let (mut same_keys, mut same_values) = (Same::default(), Same::default());
        let mut entries = Vec::with_capacity(map.entries.len());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            let (key, of) = self.expr(&entry.key);
            same_keys.check(self, entry.key.id, &of);
            key_type = Some(self.join(key_type, of));
            let (value, of) = self.element(&entry.value, entry.optional);
            same_values.check(self, entry.value.id, &of);
            value_type = Some(self.join(value_type, of));
            entries.push(Entry { key, value, optional: entry.optional });
        }
        let key_type = key_type.unwrap_or_else(|| self.fresh());
        let value_type = value_type.unwrap_or_else(|| self.fresh());
        (folded_map(entries), Type::map(key_type, value_type))
    }

    pub(super) fn object(&mut self, id: u64, object: &StructExpr) -> Checked {
        let name = object.type_name.trim_start_matches('.');
        let Some(of) = self.env.find(name) else {
            return self.undeclared(id, &object.type_name);
        };
        let mut fields = Vec::with_capacity(object.entries.len());
        for entry in &object.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let (value, found) = self.element(&field.value, field.optional);
            match of.0.field(&field.field) {
                None => self.report(entry.id, format!("undefined field '{}'", field.field)),
                Some(wanted) if !self.mapping.assignable(&wanted, &found) => {
                    let text = format!(
                        "expected type of field '{}' is '{}' but provided type is '{}'",
                        field.field,
                        wanted.checked(),
                        found.checked()
                    );
                    self.report(entry.id, text);
                }
                Some(_) => {}
            }
            fields.push(Field { name: Arc::from(field.field.as_str()), value, optional: field.optional });
        }
        (Node::Struct(Arc::from(of.0.name()), fields), Type::Struct(of))
    }
}

/// Watches that the parts of a literal have one type; only the first that differs is reported.
#[derive(Default)]
struct Same {
    first: Option<Type>,
    reported: bool,
}

impl Same {
    fn check(&mut self, checker: &mut Checker<'_>, id: u64, of: &Type) {
        let of = checker.mapping.substitute(of, true);
        let Some(first) = &self.first else {
            self.first = Some(of);
            return;
        };
        if *first != of && checker.mixed == 0 && !self.reported {
            self.reported = true;
            let text = format!("expected type '{}' but found '{}'", first.checked(), of.checked());
            let issue = checker.at.issue(id, text);
            checker.late.push(issue);
        }
    }
}

/// A list of constants is a constant.
fn folded_list(items: Vec<Item>) -> Node {
    let constant = |item: &Item| match &item.value {
        Node::Const(value) if !item.optional => Some(value.clone()),
        _ => None,
    };
    match items.iter().map(constant).collect::<Option<Vec<_>>>() {
        Some(values) => Node::Const(Val::made(values)),
        None => Node::List(items),
    }
}

/// A map of constants is a constant, unless keys repeat, which is an error when evaluated.
fn folded_map(entries: Vec<Entry>) -> Node {
    let mut made = Made::default();
    let constant = entries.iter().all(|entry| match (&entry.key, &entry.value) {
        (Node::Const(key), Node::Const(value)) if !entry.optional => {
            made.insert(key.clone(), value.clone()) == Ok(true)
        }
        _ => false,
    });
    if constant { Node::Const(Val::Map(crate::value::Map::Made(Arc::new(made)))) } else { Node::Map(entries) }
}
