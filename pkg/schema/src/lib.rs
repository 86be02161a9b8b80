//! Schema tables and everything driven by them: decoding, canonical form, defaults, validation, patches,
//! server-side apply, OpenAPI, protobuf.
//!
//! An object is a [`serde_json::Value`]; what it may hold is a [`SchemaRef`], a `Copy` handle on one node of a
//! [`SchemaSet`]. The set of all built-in kinds is generated from upstream's published modules
//! (`cargo xtask schema`) and read at first use ([`builtin`]); a CustomResourceDefinition's version becomes a set of
//! its own ([`SchemaSet::from_crd`]). All algorithms take the handle, so built-in and custom kinds share one path.
//!
//! Data flow of a write: [`decode::decode`] turns a body into a pruned, canonical tree and collects what strict
//! field validation objects to; [`patch`] makes a new tree from an old one and a patch; [`defaults`] adds declared
//! defaults; [`validate`] checks structure; [`managed`] keeps the record of who owns which field;
//! [`encode::encode`] writes a tree in the field order of upstream's Go structs.
//!
//! # Interfaces
//!
//! ```text
//! builtin() -> &'static SchemaSet                      builtin().kind(group, version, kind) -> Option<SchemaRef>
//! resources() -> Vec<ResourceDef>                      builtin().model("io.k8s.api.core.v1.Pod")
//! SchemaSet::from_crd(&openAPIV3Schema) -> Result<SchemaSet, FieldErrors>;  set.root() -> Option<SchemaRef>
//!
//! decode::decode(body, schema, FieldValidation) -> Result<Decoded { object, warnings }, DecodeError>
//! decode::decode_value(&value, schema, FieldValidation) -> Result<Decoded, DecodeError>   // after a patch
//! decode::decode_yaml(body, schema, FieldValidation)     // application/yaml bodies
//! decode::yaml(body) -> Result<Yaml { value, duplicates }, String>                         // apply patches
//! canonical::canonicalize(&mut value, schema)          encode::encode(&value, schema) -> Vec<u8>
//!
//! defaults::apply(&mut value, schema)                  defaults::prune(&mut value, schema) -> Vec<unknown paths>
//! validate::validate(&value, schema, &FieldPath) -> FieldErrors;  validate_update(&value, &old, schema, &FieldPath)
//!
//! patch::apply(PatchType, &current, body, schema, FieldValidation) -> Result<Decoded, ApiError>   // whole PATCH step
//! patch::strategic(&original, &patch, schema) -> Result<Value, PatchError>
//! patch::merge(&mut original, &patch)                  patch::json(&mut original, body) -> Result<(), PatchError>
//!
//! managed::apply(Option<&live>, &config, &Request, force) -> Result<Value, ApiError>
//! managed::update(Option<&live>, &mut new, &Request)   // create, update, patch;  keep_timestamps(&old, &mut new)
//!
//! protobuf::open(body) -> Result<Envelope, _>;  protobuf::decode(&envelope, schema);  protobuf::encode(&object, schema)
//!
//! openapi::{v3(&Sources), v2(&Sources), index(entries), digest(&Sources), path(group, version)}
//! ```
//!
//! Everything here is pure and synchronous: no I/O, no clock, no global state besides the lazily read table.

pub mod canonical;
mod crd;
pub mod decode;
pub mod defaults;
pub mod descriptions;
pub mod encode;
pub mod managed;
pub mod node;
pub mod openapi;
pub mod patch;
pub mod protobuf;
mod scalar;
mod table;
pub mod validate;

pub use node::{FieldRef, SchemaRef, SchemaSet};
pub use table::{builtin, load, resources};
