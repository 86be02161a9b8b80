//! Which type fits where, and what type parameters stand for.

use crate::types::Type;

/// What is known of type parameters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mapping(Vec<Option<Type>>);

impl Mapping {
    fn find(&self, param: u32) -> Option<&Type> {
        self.0.get(param as usize)?.as_ref()
    }

    fn add(&mut self, param: u32, to: Type) {
        let at = param as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        if let Some(slot) = self.0.get_mut(at) {
            *slot = Some(to);
        }
    }

    /// The type with what is known of its parameters; unknown ones become `dyn` when `dynamic`.
    pub(crate) fn substitute(&self, of: &Type, dynamic: bool) -> Type {
        let inner = |t: &Type| self.substitute(t, dynamic);
        match of {
            Type::Param(n) => match self.find(*n) {
                Some(found) => self.substitute(found, dynamic),
                None if dynamic => Type::Dyn,
                None => of.clone(),
            },
            Type::List(t) => Type::list(inner(t)),
            Type::Map(t) => Type::map(inner(&t.0), inner(&t.1)),
            Type::Optional(t) => Type::optional(inner(t)),
            Type::Type(Some(t)) => inner(t).of(),
            _ => of.clone(),
        }
    }

    /// Whether a value of type `from` may stand where `to` is wanted; learns parameters when it may.
    pub(crate) fn assignable(&mut self, from: &Type, to: &Type) -> bool {
        self.all_assignable(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    /// The same for every pair; nothing is learned unless all fit.
    pub(crate) fn all_assignable(&mut self, from: &[Type], to: &[Type]) -> bool {
        let mut trial = self.clone();
        let fits = from.len() == to.len() && from.iter().zip(to).all(|(from, to)| trial.fits(from, to));
        if fits {
            *self = trial;
        }
        fits
    }

    fn fits(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Param(n) = to {
            let (valid, known) = self.learn(from, *n);
            if valid || known {
                return valid;
            }
        }
        if let Type::Param(n) = from {
            return self.learn(to, *n).0;
        }
        match (from, to) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.fits(a, b),
            (Type::Map(a), Type::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            _ => from == to,
        }
    }

    /// Takes `of` as what a parameter stands for: whether it can, and whether something was known before.
    fn learn(&mut self, of: &Type, param: u32) -> (bool, bool) {
        if *of == Type::Param(param) {
            return (true, true);
        }
        let Some(known) = self.find(param).cloned() else {
            if self.mentions(of, param) {
                return (false, false);
            }
            self.add(param, of.clone());
            return (true, false);
        };
        if *of == known {
            return (true, true);
        }
        if !self.fits(of, &known) {
            return (false, true);
        }
        let general = most_general(of, &known);
        if !self.mentions(&general, param) {
            self.add(param, general);
        }
        (true, true)
    }

    fn mentions(&self, within: &Type, param: u32) -> bool {
        match within {
            Type::Param(n) if *n == param => true,
            Type::Param(n) => self.find(*n).is_some_and(|found| self.mentions(found, param)),
            Type::List(t) | Type::Optional(t) | Type::Type(Some(t)) => self.mentions(t, param),
            Type::Map(t) => self.mentions(&t.0, param) || self.mentions(&t.1, param),
            _ => false,
        }
    }
}

fn nullable(of: &Type) -> bool {
    matches!(
        of,
        Type::Null | Type::Opaque(_) | Type::Optional(_) | Type::Struct(_) | Type::Duration | Type::Timestamp
    )
}

/// The more general of two types that fit each other.
pub(crate) fn most_general(a: &Type, b: &Type) -> Type {
    if less_specific(a, b) { a.clone() } else { b.clone() }
}

fn less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => less_specific(a, b),
        (Type::Map(a), Type::Map(b)) => less_specific(&a.0, &b.0) && less_specific(&a.1, &b.1),
        (Type::Type(_), Type::Type(_)) => true,
        _ => a == b,
    }
}
