//! The one generic store of API objects and the strategies of each kind.
//!
//! # For the API server
//! [`Registry`] holds a row per group, version and plural. `registry.store(&gvr)` gives the [`Store`] of a row,
//! `registry.rows()` all rows (`Arc<ResourceDef>`), `registry.changed()` a `tokio::sync::watch::Receiver<u64>`
//! that ticks when rows come and go (rebuild discovery and OpenAPI then). All verbs take a [`RequestContext`]:
//!
//! ```text
//! Registry::open(RegistryConfig { backend, service_cidrs, node_ports, token_issuer, .. }, shutdown) -> Arc<Registry>
//! store.get   (&cx, &target, resource_version: &str)      -> ApiResult<Object>        target may name status|scale|…
//! store.list  (&cx, namespace: Option<&str>, &options)    -> ApiResult<ObjectList>
//! store.watch (&cx, namespace: Option<&str>, &options)    -> ApiResult<WatchStream>   a name comes as metadata.name=…
//! store.create(&cx, &target, body)                        -> ApiResult<Object>        also binding, eviction, token
//! store.update(&cx, &target, body)                        -> ApiResult<Written>       .created → 201
//! store.patch (&cx, &target, &patch)                      -> ApiResult<Written>
//! store.delete(&cx, &target, &options)                    -> ApiResult<Deleted>       Status, or the object (200)
//! store.delete_collection(&cx, namespace, &options, &list)-> ApiResult<ObjectList>
//! ```
//!
//! An [`Object`] is either a cached entry whose stored bytes are the answer (plus the spliced resource version) or
//! a JSON tree; `object.to_bytes()` gives JSON without parsing, `object.to_value()` a tree (Tables, PartialObject…).
//! [`ObjectList`] writes itself the same way. A [`WatchStream`] yields `WatchItem { kind, object }` (`kind` ADDED,
//! MODIFIED, DELETED, BOOKMARK, ERROR); `item.to_bytes()` is the frame `{"type":…,"object":…}\n`.
//!
//! Authentication, authorization, content types, Tables and connect subresources (`exec`, `log`, `proxy`, …) are
//! the API server's; resources that are never stored (reviews) are as well: `store()` is `None` for them.
//! Decoding, strict field checks, defaults, admission order, validation and managed fields happen here, once.

pub mod admission;
mod allocation;
mod apiservice;
mod builtin;
mod codec;
mod convert;
mod crd;
mod equivalent;
mod error;
pub mod hooks;
pub mod kinds;
mod metadata;
mod object;
mod ownership;
pub mod printers;
mod registry;
pub mod request;
mod row;
mod store;
mod subresource;
mod translated;

pub use admission::{Admission, AdmissionChain, Attributes, Operation, Reinvocation, Round};
pub use convert::{ConversionCaller, served_annotations};
pub use hooks::{HookContext, Hooks, Plain};
pub use object::{Deleted, Object, ObjectList, WatchItem, WatchKind, Written};
pub use registry::{Registry, RegistryConfig};
pub use request::{
    Body, DeleteOptions, FieldValidation, ListOptions, Patch, PatchKind, Preconditions, Propagation,
    RequestContext, Target, UserInfo, Warnings, field_manager,
};
pub use row::Schema;
pub use store::{Store, WatchStream};
pub use subresource::TokenIssuer;
