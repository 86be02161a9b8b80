//! Signatures of overloads, written as text and read when a function is looked up: the table costs nothing until then.
//!
//! `string.(string, int) string` is called on a string; `(list<A>, A) bool` is called by name alone. Single capital
//! letters stand for any type.

use std::collections::BTreeMap;

use crate::types::Type;

/// One way to call a function.
#[derive(Debug, Clone)]
pub(crate) struct Signature {
    pub(crate) member: bool,
    /// What it is called on comes first.
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
}

struct Reader<'t, 'n> {
    rest: &'t str,
    named: BTreeMap<char, Type>,
    next: &'n mut u32,
}

/// Reads a signature; each letter becomes a fresh parameter, counted by `next`.
pub(crate) fn read(text: &'static str, next: &mut u32) -> Signature {
    let mut reader = Reader { rest: text, named: BTreeMap::new(), next };
    let mut args = Vec::new();
    let member = !text.starts_with('(');
    if member {
        args.push(reader.one());
        reader.eat(".");
    }
    reader.eat("(");
    while !reader.rest.starts_with(')') {
        args.push(reader.one());
        reader.eat(",");
    }
    reader.eat(")");
    let result = reader.one();
    Signature { member, args, result }
}

impl Reader<'_, '_> {
    fn eat(&mut self, text: &str) {
        self.rest = self.rest.strip_prefix(text).unwrap_or(self.rest).trim_start();
    }

    fn one(&mut self) -> Type {
        let end = self.rest.find([',', ')', '>', '<', ' ', '(']).unwrap_or(self.rest.len());
        // A dot ends the type a function is called on; the names of library types are written without one.
        let end = self.rest.find('.').map_or(end, |dot| dot.min(end));
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        if self.rest.starts_with('<') {
            return self.parameterized(name);
        }
        if let (Some(letter), 1) = (name.chars().next(), name.len()) {
            let next = &mut *self.next;
            return self.named.entry(letter).or_insert_with(|| fresh(next)).clone();
        }
        plain(name)
    }

    fn parameterized(&mut self, name: &str) -> Type {
        self.eat("<");
        let first = self.one();
        self.eat(",");
        let second = (!self.rest.starts_with('>')).then(|| self.one());
        self.eat(">");
        match (name, second) {
            ("list", _) => Type::list(first),
            ("optional", _) => Type::optional(first),
            ("type", _) => first.of(),
            (_, second) => Type::map(first, second.unwrap_or(Type::Dyn)),
        }
    }
}

/// A new type parameter.
pub(crate) fn fresh(next: &mut u32) -> Type {
    *next += 1;
    Type::Param(*next - 1)
}

fn plain(name: &str) -> Type {
    match name {
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "quantity" => Type::Opaque("kubernetes.Quantity"),
        "url" => Type::Opaque("kubernetes.URL"),
        "ip" => Type::Opaque("net.IP"),
        "cidr" => Type::Opaque("net.CIDR"),
        "semver" => Type::Opaque("kubernetes.Semver"),
        "format" => Type::Opaque("kubernetes.NamedFormat"),
        "authorizer" => Type::Opaque("kubernetes.authorization.Authorizer"),
        "path" => Type::Opaque("kubernetes.authorization.PathCheck"),
        "group" => Type::Opaque("kubernetes.authorization.GroupCheck"),
        "resource" => Type::Opaque("kubernetes.authorization.ResourceCheck"),
        "decision" => Type::Opaque("kubernetes.authorization.Decision"),
        _ => Type::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read() {
        let mut next = 3;
        let read = read("list<A>.(map<string, A>, int) optional<list<A>>", &mut next);
        assert!(read.member);
        let args: Vec<String> = read.args.iter().map(Type::checked).collect();
        assert_eq!(args, ["list(_var3)", "map(string, _var3)", "int"]);
        assert_eq!(read.result.checked(), "optional_type(list(_var3))");
        assert_eq!(next, 4);
    }
}
