//! One operation of a path: its name, its words, its bodies.

use copepod_api::GroupVersionKind;
use serde_json::{Map, Value, json};

use super::{
    Dialect,
    definitions::Definitions,
    parameters::{self, Parameter},
};

pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    List,
    Create,
    DeleteCollection,
    Read,
    Replace,
    Patch,
    Delete,
    /// To one object, or to a list of them.
    Watch,
    WatchList,
    /// A stream or a proxy, by this method.
    Connect(&'static str),
    /// What resources there are.
    Discover,
}

impl Action {
    pub(super) const fn method(self) -> &'static str {
        match self {
            Self::List | Self::Read | Self::Watch | Self::WatchList | Self::Discover => "get",
            Self::Create => "post",
            Self::Replace => "put",
            Self::Patch => "patch",
            Self::DeleteCollection | Self::Delete => "delete",
            Self::Connect(method) => method,
        }
    }

    /// `x-kubernetes-action`.
    const fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Read => "get",
            Self::Watch => "watch",
            Self::WatchList => "watchlist",
            Self::DeleteCollection => "deletecollection",
            Self::Connect(_) => "connect",
            Self::Discover => "",
            other => other.method(),
        }
    }

    /// The first part of the operation's id.
    const fn verb(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Create => "create",
            Self::Read | Self::Discover => "read",
            Self::Replace => "replace",
            Self::Patch => "patch",
            Self::DeleteCollection | Self::Delete => "delete",
            Self::Watch | Self::WatchList => "watch",
            Self::Connect(_) => "connect",
        }
    }
}

/// One operation.
pub(super) struct Operation<'a> {
    pub(super) action: Action,
    /// Of a custom resource: fewer forms, and no streams.
    pub(super) custom: bool,
    pub(super) kind: &'a GroupVersionKind,
    /// What the words speak of: the kind of the row.
    pub(super) noun: &'a str,
    /// Name of a subresource, or empty.
    pub(super) subresource: &'a str,
    /// The definition of the object.
    pub(super) model: &'a str,
    /// The definition answered with; none where it is text.
    pub(super) answer: Option<&'a str>,
    pub(super) watched: bool,
    /// `CoreV1`.
    pub(super) group: &'a str,
    pub(super) tag: &'a str,
    /// The operation's id behind verb and group.
    pub(super) id: String,
    pub(super) parameters: Vec<Parameter>,
}

const EDIT: &str = "deprecated: use the 'watch' parameter with a list operation instead";

impl Operation<'_> {
    /// Adds the parameters that belong to what is done.
    pub(super) fn with_parameters(mut self, path: &str) -> Self {
        self.parameters = match self.action {
            Action::List => parameters::list(),
            Action::Watch | Action::WatchList => parameters::list(),
            Action::Create | Action::Replace => parameters::write(),
            Action::Patch => parameters::patch(),
            Action::Delete => parameters::delete(),
            Action::DeleteCollection if self.custom => parameters::list(),
            Action::DeleteCollection => parameters::delete_collection(),
            Action::Read if self.custom => parameters::revision(),
            Action::Read if self.answer.is_none() => parameters::options("PodLogOptions"),
            Action::Connect(_) => parameters::options(&self.kind.kind),
            Action::Read | Action::Discover => Vec::new(),
        };
        if !matches!(self.action, Action::Connect(_) | Action::Discover) {
            self.parameters.push(parameters::pretty());
        }
        let of = if self.subresource.is_empty() || self.kind.kind != *self.noun && self.kind.kind != "Pod" {
            &self.kind.kind
        } else {
            self.noun
        };
        self.parameters.extend(parameters::in_path(path, of));
        self
    }

    fn text(&self) -> String {
        let Self { noun, subresource, .. } = self;
        let of = |what: &str, article: &str| match *subresource {
            "" => format!("{what} {article}{noun}"),
            part => format!("{what} {part} of {article}{noun}"),
        };
        match self.action {
            Action::Discover => "get available resources".to_owned(),
            Action::List if self.watched && !self.custom => format!("list or watch objects of kind {noun}"),
            Action::List => format!("list objects of kind {noun}"),
            Action::Create => of("create", article(noun)),
            Action::DeleteCollection => format!("delete collection of {noun}"),
            Action::Delete => of("delete", article(noun)),
            Action::Read => of("read", "the specified "),
            Action::Replace => of("replace", "the specified "),
            Action::Patch => of("partially update", "the specified "),
            Action::Watch => format!(
                "watch changes to an object of kind {noun}. {EDIT}, filtered to a single item with the 'fieldSelector' parameter."
            ),
            Action::WatchList => format!("watch individual changes to a list of {noun}. {EDIT}."),
            Action::Connect(method) => {
                format!("connect {} requests to {subresource} of {noun}", method.to_uppercase())
            }
        }
    }

    /// The media types of answers, in the order in which they are preferred.
    fn produces(&self) -> Vec<&'static str> {
        let mut types = vec!["application/json", "application/yaml"];
        match self.action {
            Action::Connect(_) => types = vec!["*/*"],
            _ if self.custom => {}
            _ => {
                types.push("application/vnd.kubernetes.protobuf");
                if matches!(self.action, Action::List | Action::Watch | Action::WatchList) {
                    types.extend([
                        "application/json;stream=watch",
                        "application/vnd.kubernetes.protobuf;stream=watch",
                    ]);
                }
                if self.answer.is_none() {
                    types.insert(0, "text/plain");
                }
            }
        }
        types
    }

    /// The media types of bodies.
    fn consumes(&self) -> Vec<&'static str> {
        let patches = [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/apply-patch+yaml",
            "application/strategic-merge-patch+json",
        ];
        match self.action {
            Action::Patch if self.custom => patches[..3].to_vec(),
            Action::Patch => patches.to_vec(),
            Action::Discover => self.produces(),
            _ if self.custom => vec!["application/json", "application/yaml"],
            _ => vec!["*/*"],
        }
    }

    /// The definition of the body, and whether there must be one.
    fn body(&self) -> Option<(&str, bool)> {
        match self.action {
            Action::Create | Action::Replace => Some((self.model, true)),
            Action::Patch => Some((PATCH, true)),
            Action::Delete => Some((DELETE_OPTIONS, false)),
            Action::DeleteCollection if !self.custom => Some((DELETE_OPTIONS, false)),
            _ => None,
        }
    }

    pub(super) fn render(&self, definitions: &mut Definitions) -> Value {
        let dialect = definitions.dialect;
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| {
            out.insert(key.to_owned(), value);
        };
        put("description", self.text().into());
        let id = match self.action {
            Action::Discover => format!("get{}APIResources", self.group),
            action => format!("{}{}{}", action.verb(), self.group, self.id),
        };
        put("operationId", id.into());
        put("tags", json!([self.tag]));
        if self.action != Action::Discover {
            let GroupVersionKind { group, version, kind } = self.kind;
            put("x-kubernetes-action", self.action.name().into());
            put("x-kubernetes-group-version-kind", json!({"group": group, "version": version, "kind": kind}));
        }
        let mut parameters: Vec<Value> = self.parameters.iter().map(|one| one.render(dialect)).collect();
        let body = self.body().map(|(model, required)| (definitions.reference(model), required));
        if dialect == Dialect::V2 {
            put("consumes", json!(self.consumes()));
            put("produces", json!(self.produces()));
            put("schemes", json!(["https"]));
        }
        if let Some((schema, required)) = body {
            let mut body = match dialect {
                Dialect::V2 => json!({"in": "body", "name": "body", "schema": schema}),
                Dialect::V3 => json!({"content": content(&self.consumes(), &schema)}),
            };
            if let (Value::Object(map), true) = (&mut body, required) {
                map.insert("required".to_owned(), true.into());
            }
            match dialect {
                Dialect::V2 => parameters.insert(0, body),
                Dialect::V3 => put("requestBody", body),
            }
        }
        if !parameters.is_empty() {
            put("parameters", Value::Array(parameters));
        }
        put("responses", self.responses(definitions));
        Value::Object(out)
    }

    fn responses(&self, definitions: &mut Definitions) -> Value {
        let answer = match self.answer {
            Some(model) => definitions.reference(model),
            None => json!({"type": "string"}),
        };
        let codes: &[(&str, &str)] = match self.action {
            Action::Create => &[("200", "OK"), ("201", "Created"), ("202", "Accepted")],
            Action::Patch if self.custom => &[("200", "OK")],
            Action::Replace | Action::Patch => &[("200", "OK"), ("201", "Created")],
            Action::Delete => &[("200", "OK"), ("202", "Accepted")],
            _ => &[("200", "OK")],
        };
        let mut out = Map::new();
        for (code, text) in codes {
            let body = match definitions.dialect {
                Dialect::V2 => json!({"description": text, "schema": answer}),
                Dialect::V3 => json!({"description": text, "content": content(&self.produces(), &answer)}),
            };
            out.insert((*code).to_owned(), body);
        }
        out.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        Value::Object(out)
    }
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['A', 'E', 'I', 'O', 'U']) { "an " } else { "a " }
}

fn content(types: &[&str], schema: &Value) -> Value {
    types.iter().map(|type_| ((*type_).to_owned(), json!({"schema": schema}))).collect::<Map<_, _>>().into()
}
