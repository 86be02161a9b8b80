//! The policies there are with their bindings, read when one of them changed.

use std::sync::{Arc, OnceLock};

use copepod_api::{GroupVersionResource, meta};
use parking_lot::Mutex;
use serde_json::Value;

use super::{Matching, ParamKind, ParamRef};
use crate::{
    admission::{items, text},
    reader::Reader,
};

const GROUP: &str = "admissionregistration.k8s.io";

/// A policy; `E` is what its expressions compile to.
#[derive(Debug)]
pub(super) struct Policy<E> {
    pub(super) name: String,
    pub(super) matching: Matching,
    /// `failurePolicy: Ignore`
    pub(super) ignore: bool,
    pub(super) params: Option<ParamKind>,
    /// The bindings that put it in force, by name.
    pub(super) bindings: Vec<Binding>,
    version: String,
    spec: Value,
    compiled: Arc<OnceLock<E>>,
}

/// A binding of a policy.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) matching: Option<Matching>,
    pub(super) params: Option<ParamRef>,
    /// `validationActions`
    pub(super) actions: Vec<String>,
}

impl Binding {
    fn read(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let part = |field: &str| spec.get(field).filter(|v| !v.is_null());
        Self {
            name: meta::name(binding).to_owned(),
            matching: part("matchResources").map(Matching::read),
            params: part("paramRef").map(ParamRef::read),
            actions: items(spec, "validationActions").filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }
}

impl<E> Policy<E> {
    fn read(policy: &Value, bindings: Vec<Binding>) -> Self {
        let spec = policy["spec"].clone();
        Self {
            name: meta::name(policy).to_owned(),
            matching: Matching::read(&spec["matchConstraints"]),
            ignore: text(&spec, "failurePolicy") == "Ignore",
            params: spec.get("paramKind").filter(|v| !v.is_null()).map(ParamKind::read),
            bindings,
            version: meta::resource_version(policy).to_owned(),
            spec,
            compiled: Arc::default(),
        }
    }

    /// Its expressions, compiled now if no request needed them before.
    pub(super) fn compiled(&self, compile: fn(&Value) -> E) -> &E {
        self.compiled.get_or_init(|| compile(&self.spec))
    }
}

/// What was read, and when.
type Known<E> = ((i64, i64), Arc<[Arc<Policy<E>>]>);

/// The policies of one kind, those with bindings, in the order of their names.
#[derive(Debug)]
pub(super) struct Source<E> {
    policies: &'static str,
    bindings: &'static str,
    known: Mutex<Option<Known<E>>>,
}

impl<E> Source<E> {
    /// Policies and bindings of two resources.
    pub(super) fn new(policies: &'static str, bindings: &'static str) -> Self {
        Self { policies, bindings, known: Mutex::new(None) }
    }

    fn stamp(&self, reader: &Reader) -> Option<(i64, i64)> {
        let stamp = |resource| reader.0.stamp(&GroupVersionResource::new(GROUP, "v1", resource));
        stamp(self.policies).zip(stamp(self.bindings))
    }

    /// All of them, as the watch cache has them now.
    pub(super) async fn policies(&self, reader: &Reader) -> Arc<[Arc<Policy<E>>]> {
        let Some(stamp) = self.stamp(reader) else { return Arc::new([]) };
        if let Some((known, policies)) = &*self.known.lock()
            && *known == stamp
        {
            return Arc::clone(policies);
        }
        let bindings = reader.list(GROUP, self.bindings, None, "").await;
        let policies =
            if bindings.is_empty() { Vec::new() } else { reader.list(GROUP, self.policies, None, "").await };
        let mut known = self.known.lock();
        let before = known.take().map(|(_, policies)| policies);
        let policies: Arc<[Arc<Policy<E>>]> = policies
            .iter()
            .filter_map(|policy| {
                let own = bindings.iter().filter(|b| text(&b["spec"], "policyName") == meta::name(policy));
                let own: Vec<Binding> = own.map(Binding::read).collect();
                (!own.is_empty()).then(|| Arc::new(Self::read(policy, own, before.as_deref())))
            })
            .collect();
        *known = Some((stamp, Arc::clone(&policies)));
        policies
    }

    /// A policy; one that did not change keeps what its expressions were compiled to.
    fn read(policy: &Value, bindings: Vec<Binding>, before: Option<&[Arc<Policy<E>>]>) -> Policy<E> {
        let mut new = Policy::read(policy, bindings);
        let same = |old: &&Arc<Policy<E>>| old.name == new.name && old.version == new.version;
        if let Some(old) = before.into_iter().flatten().find(same) {
            new.compiled = Arc::clone(&old.compiled);
        }
        new
    }
}
