//! The table of functions.

use crate::{
    library::{authz, core, format, lists, named, net, optional, quantity, semver, sets, strings, time, url},
    value::{Result, Val},
};

/// What a function does with its arguments; what it is called on comes first.
pub(crate) type Run = for<'a> fn(&[Val<'a>]) -> Result<Val<'a>>;

/// A function, all its overloads together.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// See [`crate::signature`].
    pub(crate) overloads: &'static [&'static str],
    pub(crate) run: Run,
}

/// The function of a name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    LIBRARIES.iter().flat_map(|library| library.iter()).find(|function| function.name == name)
}

const LIBRARIES: &[&[Function]] = &[
    core::FUNCTIONS,
    time::FUNCTIONS,
    strings::FUNCTIONS,
    format::FUNCTIONS,
    lists::FUNCTIONS,
    sets::FUNCTIONS,
    optional::FUNCTIONS,
    quantity::FUNCTIONS,
    net::FUNCTIONS,
    url::FUNCTIONS,
    semver::FUNCTIONS,
    named::FUNCTIONS,
    authz::FUNCTIONS,
    SHARED,
];

/// Names that several libraries give overloads to.
const SHARED: &[Function] = &[
    Function {
        name: "indexOf",
        overloads: &["string.(string) int", "string.(string, int) int", "list<A>.(A) int"],
        run: |args| {
            if matches!(args, [Val::List(_), ..]) { lists::index_of(args) } else { strings::index_of(args) }
        },
    },
    Function {
        name: "lastIndexOf",
        overloads: &["string.(string) int", "string.(string, int) int", "list<A>.(A) int"],
        run: |args| {
            if matches!(args, [Val::List(_), ..]) {
                lists::last_index_of(args)
            } else {
                strings::last_index_of(args)
            }
        },
    },
    Function {
        name: "string",
        overloads: &[
            "(string) string",
            "(bool) string",
            "(bytes) string",
            "(double) string",
            "(duration) string",
            "(int) string",
            "(timestamp) string",
            "(uint) string",
            "(ip) string",
            "(cidr) string",
        ],
        run: core::string,
    },
    Function {
        name: "isGreaterThan",
        overloads: &["quantity.(quantity) bool", "semver.(semver) bool"],
        run: |args| quantity::ordered(args, std::cmp::Ordering::is_gt),
    },
    Function {
        name: "isLessThan",
        overloads: &["quantity.(quantity) bool", "semver.(semver) bool"],
        run: |args| quantity::ordered(args, std::cmp::Ordering::is_lt),
    },
    Function {
        name: "compareTo",
        overloads: &["quantity.(quantity) int", "semver.(semver) int"],
        run: |args| quantity::order(args).map(|order| Val::Int(order as i64)),
    },
    Function { name: "ip", overloads: &["(string) ip", "cidr.() ip"], run: net::ip },
    Function { name: "or", overloads: &["optional<A>.(optional<A>) optional<A>"], run: optional::or },
];
