//! The Kubernetes object model as data, shared by every other crate.
//!
//! An API object is a JSON tree ([`serde_json::Value`]); what every kind has in common is read through
//! [`meta`]. A kind is described by one [`ResourceDef`] row, built in or made from a
//! CustomResourceDefinition at run time; no code here knows a particular kind. Errors a client sees are
//! [`ApiError`]s (a Kubernetes `Status`), built by its constructors with upstream's reasons and texts;
//! validation collects [`FieldError`]s.
//!
//! This crate does no I/O and reads no clock.

pub mod duration;
pub mod field;
pub mod gvk;
pub mod json;
pub mod meta;
pub mod names;
pub mod quantity;
pub mod resource;
pub mod selector;
pub mod status;

pub use field::{FieldError, FieldErrors, FieldPath};
pub use gvk::{GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use quantity::Quantity;
pub use resource::{ResourceDef, Scope, Subresource, Verb, Verbs};
pub use selector::{FieldSelector, LabelSelector};
pub use status::{ApiError, ApiResult, Reason, Status};
