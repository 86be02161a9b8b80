//! A checked expression: what the evaluator walks.

use std::sync::Arc;

use crate::{functions::Function, types::Type, value::Val};

/// One step.
#[derive(Debug)]
pub(crate) enum Node {
    Const(Val<'static>),
    /// A variable of the environment.
    Var(Arc<str>),
    /// A variable of a comprehension, by its place on the stack.
    Local(usize),
    Select(Box<Select>),
    Index(Box<Index>),
    And(Vec<Self>),
    Or(Vec<Self>),
    Cond(Box<[Self; 3]>),
    /// `@not_strictly_false`
    Lenient(Box<Self>),
    Call(&'static Function, Vec<Self>),
    List(Vec<Item>),
    Map(Vec<Entry>),
    Struct(Arc<str>, Vec<Field>),
    Fold(Box<Fold>),
}

#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) of: Node,
    pub(crate) field: Arc<str>,
    /// `has(of.field)`
    pub(crate) test: bool,
    /// `of.?field`
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) of: Node,
    pub(crate) at: Node,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Node,
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: Arc<str>,
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

/// A loop: the accumulator takes the next place on the stack, the variables the places after it.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) over: Node,
    pub(crate) two: bool,
    pub(crate) init: Node,
    pub(crate) cond: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    pub(crate) root: Node,
    pub(crate) output: Type,
}

impl Program {
    /// The type of its value.
    #[must_use]
    pub fn output(&self) -> &Type {
        &self.output
    }

    /// Whether it names a variable.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        self.root.uses(variable)
    }
}

impl Node {
    fn uses(&self, variable: &str) -> bool {
        let of = |node: &Self| node.uses(variable);
        match self {
            Self::Const(_) | Self::Local(_) => false,
            Self::Var(name) => &**name == variable,
            Self::Select(select) => of(&select.of),
            Self::Index(index) => of(&index.of) || of(&index.at),
            Self::And(nodes) | Self::Or(nodes) | Self::Call(_, nodes) => nodes.iter().any(of),
            Self::Cond(nodes) => nodes.iter().any(of),
            Self::Lenient(node) => of(node),
            Self::List(items) => items.iter().any(|item| of(&item.value)),
            Self::Map(entries) => entries.iter().any(|entry| of(&entry.key) || of(&entry.value)),
            Self::Struct(_, fields) => fields.iter().any(|field| of(&field.value)),
            Self::Fold(fold) => {
                [&fold.over, &fold.init, &fold.cond, &fold.step, &fold.result].into_iter().any(of)
            }
        }
    }
}
