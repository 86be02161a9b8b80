//! What expressions of admission see: the variables of webhooks' match conditions and of admission policies.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::Value;

use crate::{
    Activation, Authorizer, Authz, Check, Env, Limits, Program, Type,
    types::{Fields, StructType},
    value::{Failure, Val},
};

/// Which variables there are beside `object`, `oldObject`, `request` and `namespaceObject`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// `params`
    pub params: bool,
    /// `authorizer`
    pub authorizer: bool,
}

fn request() -> Type {
    let string = || Type::String;
    let kind = Fields::new(
        "kubernetes.GroupVersionKind",
        vec![("group", string()), ("version", string()), ("kind", string())],
    );
    let resource = Fields::new(
        "kubernetes.GroupVersionResource",
        vec![("group", string()), ("version", string()), ("resource", string())],
    );
    let (kind, resource) = (Type::object(kind), Type::object(resource));
    let user = Fields::new(
        "kubernetes.UserInfo",
        vec![
            ("username", string()),
            ("uid", string()),
            ("groups", Type::list(string())),
            ("extra", Type::map(string(), Type::list(string()))),
        ],
    );
    Type::object(Fields::new(
        "kubernetes.AdmissionRequest",
        vec![
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", string()),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", string()),
            ("name", string()),
            ("namespace", string()),
            ("operation", string()),
            ("userInfo", Type::object(user)),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    ))
}

fn namespace() -> Type {
    let string = || Type::String;
    let texts = || Type::map(Type::String, Type::String);
    let condition = Fields::new(
        "kubernetes.NamespaceCondition",
        vec![
            ("status", string()),
            ("type", string()),
            ("lastTransitionTime", Type::Timestamp),
            ("message", string()),
            ("reason", string()),
        ],
    );
    let metadata = Fields::new(
        "kubernetes.NamespaceMetadata",
        vec![
            ("name", string()),
            ("generateName", string()),
            ("namespace", string()),
            ("labels", texts()),
            ("annotations", texts()),
            ("UID", string()),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", string()),
            ("finalizers", Type::list(string())),
        ],
    );
    let spec = Fields::new("kubernetes.NamespaceSpec", vec![("finalizers", Type::list(string()))]);
    let status = Fields::new(
        "kubernetes.NamespaceStatus",
        vec![("conditions", Type::list(Type::object(condition))), ("phase", string())],
    );
    Type::object(Fields::new(
        "kubernetes.Namespace",
        vec![
            ("metadata", Type::object(metadata)),
            ("spec", Type::object(spec)),
            ("status", Type::object(status)),
        ],
    ))
}

/// The environment of admission, with objects of any type.
#[must_use]
pub fn env(options: Options) -> Env {
    typed_env(options, Type::Dyn, Type::Dyn)
}

/// The environment of admission, with objects and parameters of known types.
#[must_use]
pub fn typed_env(options: Options, object: Type, params: Type) -> Env {
    let mut env = Env::new()
        .with("object", object.clone())
        .with("oldObject", object)
        .with("namespaceObject", namespace())
        .with("request", request());
    if options.params {
        env = env.with("params", params);
    }
    if options.authorizer {
        env = env
            .with("authorizer", Type::Opaque("kubernetes.authorization.Authorizer"))
            .with("authorizer.requestResource", Type::Opaque("kubernetes.authorization.ResourceCheck"));
    }
    env
}

/// The type of `variables`; fields are added as variables are compiled.
#[derive(Debug, Clone, Default)]
pub struct VariablesType(Arc<Mutex<Vec<(String, Type)>>>);

impl VariablesType {
    /// The environment with `variables`.
    #[must_use]
    pub fn in_env(&self, env: Env) -> Env {
        env.with("variables", Type::object(self.clone()))
    }

    /// Adds a variable of the type that its expression has.
    pub fn add(&self, name: &str, of: &Type) {
        let of = match of {
            Type::Struct(_) | Type::Opaque(_) | Type::Optional(_) | Type::Type(_) | Type::Error => Type::Dyn,
            of => of.clone(),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), of));
    }
}

impl StructType for VariablesType {
    fn name(&self) -> &'static str {
        "kubernetes.variables"
    }

    fn computed(&self) -> bool {
        true
    }

    fn field(&self, name: &str) -> Option<Type> {
        let fields = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fields.iter().find(|(field, _)| field == name).map(|(_, of)| of.clone())
    }
}

/// What an evaluation sees.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The object; none on delete.
    pub object: Option<&'a Value>,
    /// The object before, on update and delete.
    pub old_object: Option<&'a Value>,
    /// The AdmissionRequest without its objects, as JSON.
    pub request: &'a Value,
    /// The parameter, where there is one.
    pub params: Option<&'a Value>,
    /// The namespace of the object; none for cluster-wide objects.
    pub namespace: Option<&'a Value>,
    /// Answers for `authorizer`.
    pub authorizer: Option<&'a dyn Authorizer>,
}

impl std::fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("request", &self.request).finish_non_exhaustive()
    }
}

impl<'a> Input<'a> {
    /// The value of a variable of the environment.
    fn get(&self, name: &str) -> Option<Val<'a>> {
        let json = |value: Option<&'a Value>| Some(value.map_or(Val::Null, Val::json));
        match name {
            "object" => json(self.object),
            "oldObject" => json(self.old_object),
            "params" => json(self.params),
            "request" => Some(Val::json(self.request)),
            "namespaceObject" => json(self.namespace),
            "authorizer" => self.authorizer.map(Authz::root),
            "authorizer.requestResource" => self.authorizer.map(|by| Authz::resource(by, self.resource())),
            _ => None,
        }
    }

    /// The question whether the user may do something to the resource of the request.
    fn resource(&self) -> Check {
        let text =
            |path: &str| self.request.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        Check {
            group: text("/requestResource/group"),
            resource: text("/requestResource/resource"),
            subresource: text("/requestSubResource"),
            namespace: text("/namespace"),
            name: text("/name"),
            ..Check::default()
        }
    }
}

/// A named expression that others may use.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// The expression, or why it does not compile.
    pub program: Result<Program, String>,
}

/// An expression with its text, which errors name.
#[derive(Debug)]
pub struct Expression {
    text: String,
    program: Result<Program, String>,
}

impl Expression {
    /// Compiles an expression; what does not compile is an error when it is evaluated.
    #[must_use]
    pub fn new(text: &str, env: &Env, returns: &[Type]) -> Self {
        Self { text: text.to_owned(), program: crate::compile(text, env, returns) }
    }

    /// The expression as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why it does not compile.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.program.as_ref().err().map(String::as_str)
    }

    /// Evaluates it within what is left of a budget. The inner error is the expression's own.
    ///
    /// # Errors
    /// When the budget is spent: nothing further is to be evaluated then.
    pub fn eval<'a>(
        &'a self,
        scope: &Scope<'a>,
        budget: &mut u64,
    ) -> Result<Result<Val<'a>, String>, String> {
        match &self.program {
            Ok(program) => scope.eval(program, &self.text, budget),
            Err(why) => Ok(Err(format!("compilation error: {why}"))),
        }
    }
}

/// The variables of an evaluation, each computed once, when it is first used.
pub struct Scope<'a> {
    input: Input<'a>,
    variables: &'a [Variable],
    done: Mutex<HashMap<usize, Result<Val<'a>, Failure>>>,
    cost: AtomicU64,
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("input", &self.input).finish_non_exhaustive()
    }
}

impl<'a> Scope<'a> {
    /// What is seen, and the variables there are.
    #[must_use]
    pub fn new(input: Input<'a>, variables: &'a [Variable]) -> Self {
        Self { input, variables, done: Mutex::default(), cost: AtomicU64::new(0) }
    }

    /// Evaluates an expression within what is left of a budget.
    ///
    /// # Errors
    /// When the budget is spent: nothing further is to be evaluated then.
    pub fn eval(
        &self,
        program: &'a Program,
        expression: &str,
        budget: &mut u64,
    ) -> Result<Result<Val<'a>, String>, String> {
        let outcome = program.eval(self, Limits::default());
        let cost = outcome.cost.saturating_add(self.cost.swap(0, Ordering::Relaxed));
        let Some(left) = budget.checked_sub(cost) else {
            return Err(
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned(),
            );
        };
        *budget = left;
        Ok(outcome.value.map_err(|failure| format!("expression '{expression}' resulted in error: {failure}")))
    }

    fn compute(&self, variable: &'a Variable) -> Result<Val<'a>, Failure> {
        let name = &variable.name;
        let program = variable
            .program
            .as_ref()
            .map_err(|why| Failure::Error(format!("composited variable {name:?} fails to compile: {why}")))?;
        let outcome = program.eval(self, Limits::default());
        self.cost.fetch_add(outcome.cost, Ordering::Relaxed);
        outcome.value.map_err(|failure| match failure {
            Failure::Interrupted => failure,
            why => Failure::Error(format!("composited variable {name:?} fails to evaluate: {why}")),
        })
    }
}

impl<'a> Activation<'a> for Scope<'a> {
    fn get(&self, name: &str) -> Option<Result<Val<'a>, Failure>> {
        match name.strip_prefix("variables.") {
            Some(name) => self.variable(name),
            None => self.input.get(name).map(Ok),
        }
    }
}

impl<'a> Scope<'a> {
    fn variable(&self, name: &str) -> Option<Result<Val<'a>, Failure>> {
        let at = self.variables.iter().rposition(|variable| variable.name == name)?;
        let known = || self.done.lock().unwrap_or_else(PoisonError::into_inner).get(&at).cloned();
        if let Some(value) = known() {
            return Some(value);
        }
        let value = self.compute(self.variables.get(at)?);
        self.done.lock().unwrap_or_else(PoisonError::into_inner).insert(at, value.clone());
        Some(value)
    }
}
