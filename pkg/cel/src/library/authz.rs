//! Questions to the authorizer.

use std::{fmt, sync::Arc};

use super::{Opaque, core::text};
use crate::{
    functions::Function,
    value::{Failure, Result, Text, Val},
};

/// What an expression asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Check {
    /// Who would do it, when not the user of the request: namespace and name of a service account.
    pub service_account: Option<(String, String)>,
    /// The verb.
    pub verb: String,
    /// The group; a question about a path has none.
    pub group: String,
    /// The plural.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace; empty for all.
    pub namespace: String,
    /// The name; empty for all.
    pub name: String,
    /// The path, for what is not a resource.
    pub path: Option<String>,
    /// The field selector, as written.
    pub field_selector: Option<String>,
    /// The label selector, as written.
    pub label_selector: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What kept the question from being answered.
    pub error: Option<String>,
}

/// Answers questions about the user of the request.
pub trait Authorizer: Send + Sync {
    /// Decides.
    fn decide(&self, check: &Check) -> Decision;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Authorizer,
    Path,
    Group,
    Resource,
}

/// A question in the making, or its answer.
#[derive(Clone)]
pub struct Authz<'a>(Inner<'a>);

#[derive(Clone)]
enum Inner<'a> {
    Ask { stage: Stage, by: &'a dyn Authorizer, check: Arc<Check> },
    Answer(Arc<Decision>),
}

impl fmt::Debug for Authz<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

impl PartialEq for Authz<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Inner::Ask { stage, check, .. }, Inner::Ask { stage: s, check: c, .. }) => {
                stage == s && check == c
            }
            (Inner::Answer(a), Inner::Answer(b)) => a == b,
            _ => false,
        }
    }
}

impl<'a> Authz<'a> {
    /// `authorizer`
    #[must_use]
    pub fn root(by: &'a dyn Authorizer) -> Val<'a> {
        Self::ask(Stage::Authorizer, by, Check::default())
    }

    /// `authorizer.requestResource`
    #[must_use]
    pub fn resource(by: &'a dyn Authorizer, check: Check) -> Val<'a> {
        Self::ask(Stage::Resource, by, check)
    }

    fn ask(stage: Stage, by: &'a dyn Authorizer, check: Check) -> Val<'a> {
        Val::Opaque(Opaque::Authz(Self(Inner::Ask { stage, by, check: Arc::new(check) })))
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match &self.0 {
            Inner::Ask { stage: Stage::Authorizer, .. } => "kubernetes.authorization.Authorizer",
            Inner::Ask { stage: Stage::Path, .. } => "kubernetes.authorization.PathCheck",
            Inner::Ask { stage: Stage::Group, .. } => "kubernetes.authorization.GroupCheck",
            Inner::Ask { stage: Stage::Resource, .. } => "kubernetes.authorization.ResourceCheck",
            Inner::Answer(_) => "kubernetes.authorization.Decision",
        }
    }
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "path",
        overloads: &["authorizer.(string) path"],
        run: |a| to(a, Stage::Authorizer, Stage::Path, path),
    },
    Function {
        name: "group",
        overloads: &["authorizer.(string) group"],
        run: |a| to(a, Stage::Authorizer, Stage::Group, |c, t| set(&mut c.group, t)),
    },
    Function {
        name: "serviceAccount",
        overloads: &["authorizer.(string, string) authorizer"],
        run: service_account,
    },
    Function {
        name: "resource",
        overloads: &["group.(string) resource"],
        run: |a| to(a, Stage::Group, Stage::Resource, resource),
    },
    Function { name: "subresource", overloads: ON, run: |a| on(a, |c, t| set(&mut c.subresource, t)) },
    Function { name: "namespace", overloads: ON, run: |a| on(a, |c, t| set(&mut c.namespace, t)) },
    Function { name: "name", overloads: ON, run: |a| on(a, |c, t| set(&mut c.name, t)) },
    Function {
        name: "fieldSelector",
        overloads: ON,
        run: |a| {
            on(a, |c, t| {
                c.field_selector = Some(t.to_string());
                Ok(())
            })
        },
    },
    Function {
        name: "labelSelector",
        overloads: ON,
        run: |a| {
            on(a, |c, t| {
                c.label_selector = Some(t.to_string());
                Ok(())
            })
        },
    },
    Function {
        name: "check",
        overloads: &["path.(string) decision", "resource.(string) decision"],
        run: check,
    },
    Function {
        name: "allowed",
        overloads: &["decision.() bool"],
        run: |a| Ok(Val::Bool(answer(a)?.allowed)),
    },
    Function {
        name: "errored",
        overloads: &["decision.() bool"],
        run: |a| Ok(Val::Bool(answer(a)?.error.is_some())),
    },
    Function {
        name: "error",
        overloads: &["decision.() string"],
        run: |a| Ok(Val::text(answer(a)?.error.as_deref().unwrap_or_default())),
    },
    Function {
        name: "reason",
        overloads: &["decision.() string"],
        run: |a| Ok(Val::text(answer(a)?.reason.as_str())),
    },
];

const ON: &[&str] = &["resource.(string) resource"];

type Change = fn(&mut Check, &Text<'_>) -> Result<()>;

#[expect(clippy::unnecessary_wraps, reason = "other changes of a question can fail")]
fn set(field: &mut String, text: &Text<'_>) -> Result<()> {
    *field = text.to_string();
    Ok(())
}

fn path(check: &mut Check, text: &Text<'_>) -> Result<()> {
    if text.is_empty() {
        return Err(Failure::new("path must not be empty"));
    }
    check.path = Some(text.to_string());
    Ok(())
}

fn resource(check: &mut Check, text: &Text<'_>) -> Result<()> {
    if text.is_empty() {
        return Err(Failure::new("resource must not be empty"));
    }
    set(&mut check.resource, text)
}

fn on<'a>(args: &[Val<'a>], change: Change) -> Result<Val<'a>> {
    to(args, Stage::Resource, Stage::Resource, change)
}

fn to<'a>(args: &[Val<'a>], from: Stage, to: Stage, change: Change) -> Result<Val<'a>> {
    let Some(Val::Opaque(Opaque::Authz(Authz(Inner::Ask { stage, by, check })))) = args.first() else {
        return Err(Failure::overload());
    };
    if *stage != from {
        return Err(Failure::overload());
    }
    let mut check = (**check).clone();
    change(&mut check, text(args.get(1))?)?;
    Ok(Authz::ask(to, *by, check))
}

fn service_account<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let (namespace, name) = (text(args.get(1))?, text(args.get(2))?);
    if !copepod_api::names::dns1123_subdomain(name).is_empty() {
        return Err(Failure::new("Invalid service account name"));
    }
    if !copepod_api::names::dns1123_label(namespace).is_empty() {
        return Err(Failure::new("Invalid service account namespace"));
    }
    let Some(Val::Opaque(Opaque::Authz(Authz(Inner::Ask { stage: Stage::Authorizer, by, check })))) =
        args.first()
    else {
        return Err(Failure::overload());
    };
    let mut check = (**check).clone();
    check.service_account = Some((namespace.to_string(), name.to_string()));
    Ok(Authz::ask(Stage::Authorizer, *by, check))
}

fn check<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let Some(Val::Opaque(Opaque::Authz(Authz(Inner::Ask { by, check, .. })))) = args.first() else {
        return Err(Failure::overload());
    };
    let mut check = (**check).clone();
    check.verb = text(args.get(1))?.to_string();
    let decision = by.decide(&check);
    Ok(Val::Opaque(Opaque::Authz(Authz(Inner::Answer(Arc::new(decision))))))
}

fn answer<'v>(args: &'v [Val<'_>]) -> Result<&'v Decision> {
    match args {
        [Val::Opaque(Opaque::Authz(Authz(Inner::Answer(decision))))] => Ok(decision),
        _ => Err(Failure::overload()),
    }
}
