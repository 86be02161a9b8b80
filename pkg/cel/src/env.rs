//! What an expression may name.

use std::sync::Arc;

use crate::types::{Struct, Type};

/// Finds types by name, for constructors such as `Object.spec{…}`.
pub trait Types: Send + Sync {
    /// The type that `name` means.
    fn find(&self, name: &str) -> Option<Struct>;
}

/// Variables and types an expression is compiled with.
#[derive(Clone, Default)]
pub struct Env {
    variables: Vec<(&'static str, Type)>,
    types: Option<Arc<dyn Types>>,
    /// Whether functions of JSON patches are there.
    pub(crate) patches: bool,
    /// Whether `cel.bind` is there.
    pub(crate) bindings: bool,
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl Env {
    /// An environment with the language's and Kubernetes' libraries, and no variables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable; its name may have dots.
    #[must_use]
    pub fn with(mut self, name: &'static str, of: Type) -> Self {
        self.variables.push((name, of));
        self
    }

    /// Adds types for constructors, and the functions of JSON patches.
    #[must_use]
    pub fn with_types(mut self, types: Arc<dyn Types>) -> Self {
        self.types = Some(types);
        self.patches = true;
        self
    }

    /// Adds the macro `cel.bind`.
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.bindings = true;
        self
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&Type> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, of)| of)
    }

    pub(crate) fn find(&self, name: &str) -> Option<Struct> {
        self.types.as_ref()?.find(name)
    }
}
