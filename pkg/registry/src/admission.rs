//! The port through which the API server's admission plugins and webhooks see every write.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use copepod_api::{ApiResult, GroupVersionKind, GroupVersionResource};
use serde_json::Value;

use crate::request::{UserInfo, Warnings};

mod reinvocation;

pub use reinvocation::{Reinvocation, Round};

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A new object (or a POST to a subresource such as `eviction`).
    Create,
    /// A change.
    Update,
    /// A deletion; [`Attributes::old`] is the object.
    Delete,
    /// A connection (`exec`, `proxy`); the HTTP layer runs the chain for these itself.
    Connect,
}

impl Operation {
    /// As AdmissionReview spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// What a plugin may know of a write, beside the new object.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    /// What is being done.
    pub operation: Operation,
    /// The kind of the object in the request (`policy/v1 Eviction` for an eviction).
    pub kind: &'a GroupVersionKind,
    /// The resource in the path.
    pub resource: &'a GroupVersionResource,
    /// The subresource in the path; empty for none.
    pub subresource: &'a str,
    /// The namespace; empty for cluster-wide resources.
    pub namespace: &'a str,
    /// The name; may still be empty on create.
    pub name: &'a str,
    /// The object before, on update and delete.
    pub old: Option<&'a Value>,
    /// Who asks.
    pub user: &'a UserInfo,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The options of the request (`CreateOptions`, `DeleteOptions`, …) as an object.
    pub options: &'a Value,
    /// Warnings for the client.
    pub warnings: &'a Warnings,
    /// What mutating plugins remember of this request; the chain sets it, whoever starts a chain leaves it `None`.
    pub reinvocation: Option<&'a Reinvocation>,
}

/// An admission plugin. Both methods default to letting everything pass; each decides itself what it handles.
#[async_trait]
pub trait Admission: Send + Sync {
    /// The name for errors and metrics.
    fn name(&self) -> &'static str;

    /// Changes the new object, or refuses. Not called on delete. Runs a second time when a plugin asks for it
    /// ([`Reinvocation::want`]).
    async fn mutate(&self, _attributes: &Attributes<'_>, _object: &mut Value) -> ApiResult<()> {
        Ok(())
    }

    /// The mutating phase of a deletion, which has no object to change: webhooks are called all the same.
    async fn admit_delete(&self, _attributes: &Attributes<'_>) -> ApiResult<()> {
        Ok(())
    }

    /// Refuses or lets pass. `object` is `None` on delete.
    async fn validate(&self, _attributes: &Attributes<'_>, _object: Option<&Value>) -> ApiResult<()> {
        Ok(())
    }
}

/// The plugins in the order they run. Cloning is cheap.
#[derive(Clone, Default)]
pub struct AdmissionChain(Arc<[Arc<dyn Admission>]>);

impl fmt::Debug for AdmissionChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|plugin| plugin.name())).finish()
    }
}

impl AdmissionChain {
    /// A chain of these plugins.
    #[must_use]
    pub fn new(plugins: Vec<Arc<dyn Admission>>) -> Self {
        Self(plugins.into())
    }

    /// Whether there is no plugin.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Runs every plugin's mutation in order; all of them once more when one asked for it.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> ApiResult<()> {
        let reinvocation = Reinvocation::default();
        let attributes = Attributes { reinvocation: Some(&reinvocation), ..*attributes };
        for plugin in self.0.iter() {
            plugin.mutate(&attributes, object).await?;
        }
        if reinvocation.start_second() {
            for plugin in self.0.iter() {
                plugin.mutate(&attributes, object).await?;
            }
        }
        Ok(())
    }

    /// Runs every plugin's part in the mutating phase of a deletion.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn admit_delete(&self, attributes: &Attributes<'_>) -> ApiResult<()> {
        for plugin in self.0.iter() {
            plugin.admit_delete(attributes).await?;
        }
        Ok(())
    }

    /// Runs every plugin's validation in order.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> ApiResult<()> {
        for plugin in self.0.iter() {
            plugin.validate(attributes, object).await?;
        }
        Ok(())
    }
}
