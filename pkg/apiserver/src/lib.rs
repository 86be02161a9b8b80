//! The API server: HTTP, identity, permission and admission around the registry.
//!
//! # The way of a request
//! [`serve`](self) accepts a connection, speaks TLS with HTTP/1.1 or HTTP/2 and learns what the peer's certificate
//! proves, once. Each request is then read into what it asks for (verb, resource, namespace, name, or a path outside
//! the API), its sender is found (front proxy headers, certificate, bearer token, anonymous; then impersonation),
//! and the authorizers are asked (Node, RBAC). Only then a handler runs: objects go to the registry, whose one write
//! pipeline calls back into the admission plugins here; reviews are answered on the spot; logs, exec and proxies are
//! passed on to kubelets and endpoints; discovery and OpenAPI are documents made from the registry's rows.
//!
//! # Invariants
//! - No kind has a handler of its own: what differs between kinds is in the row and its strategy.
//! - An answer that is stored bytes stays bytes: only Tables, partial metadata and YAML parse objects.
//! - Permission is asked before a body is read.
//! - What the server keeps in memory beside the registry is the parsed RBAC objects and the discovery documents.

mod admission;
mod aggregator;
mod authn;
mod authz;
mod body;
mod bootstrap;
mod config;
mod connect;
mod discovery;
mod error;
mod flowcontrol;
mod handlers;
mod health;
mod kubelet;
mod metrics;
mod negotiate;
mod openapi;
mod outbound;
mod protobuf;
mod reader;
mod request;
mod respond;
mod reviews;
mod run;
mod serve;
mod server;
mod socket;
mod user;

pub use config::Config;
pub use error::ServeError;
pub use run::run;
