//! Conversion between the versions of one resource.

use copepod_api::ResourceDef;
use serde_json::Value;

mod autoscaling;
mod event;
mod webhook;

pub use webhook::ConversionCaller;
pub(crate) use webhook::ConversionWebhook;

/// How a row's version relates to the version that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Conversion {
    /// Served, worked on and stored alike.
    #[default]
    None,
    /// Only `apiVersion` differs (custom resources).
    ApiVersion,
    /// Custom resources with a conversion webhook: see [`ConversionWebhook`].
    Webhook,
    /// `events.k8s.io/v1`: worked on as served, stored as core events.
    Event,
    /// `autoscaling/v1`: worked on and stored as `autoscaling/v2`.
    Autoscaling,
}

impl Conversion {
    /// Served → working version, after decoding.
    pub(crate) fn accept(self, object: &mut Value) {
        if self == Self::Autoscaling {
            autoscaling::to_v2(object);
        }
    }

    /// Working → served version.
    pub(crate) fn serve(self, object: &mut Value) {
        if self == Self::Autoscaling {
            autoscaling::to_v1(object);
        }
    }

    /// Working → stored version.
    pub(crate) fn store(self, object: &mut Value, api_version: &str) {
        match self {
            Self::None | Self::Autoscaling | Self::Webhook => {}
            Self::ApiVersion => set_version(object, api_version),
            Self::Event => event::to_core(object),
        }
    }

    /// Stored → working version.
    pub(crate) fn load(self, object: &mut Value, api_version: &str) {
        match self {
            Self::None | Self::Autoscaling | Self::Webhook => {}
            Self::ApiVersion => set_version(object, api_version),
            Self::Event => event::from_core(object),
        }
    }
}

/// Annotations that a served version carries in place of fields it does not have. Upstream makes Tables and partial
/// metadata from its internal form, which has the fields.
#[must_use]
pub fn served_annotations(def: &ResourceDef) -> &'static [&'static str] {
    match (def.group.as_str(), def.version.as_str(), def.plural.as_str()) {
        ("apps", "v1", "daemonsets") => &["deprecated.daemonset.template.generation"],
        ("autoscaling", "v1", "horizontalpodautoscalers") => &autoscaling::ANNOTATIONS,
        _ => &[],
    }
}

/// Brings an object of a built-in kind to another version of it; `None` when there is no such version.
pub(crate) fn between(object: &mut Value, api_version: &str) -> Option<()> {
    let from = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    match (kind, from.as_str(), api_version) {
        ("HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling/v1") => autoscaling::to_v1(object),
        ("HorizontalPodAutoscaler", "autoscaling/v1", "autoscaling/v2") => autoscaling::to_v2(object),
        ("Event", "events.k8s.io/v1", "v1") => event::to_core(object),
        ("Event", "v1", "events.k8s.io/v1") => event::from_core(object),
        _ => return None,
    }
    Some(())
}

fn set_version(object: &mut Value, api_version: &str) {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.into());
    }
}
