//! The controllers: pure plans over cached state, and one executor.
//!
//! Informers fill the shared [`caches::Caches`] with trimmed [`views`]. A controller (one module each, listed in
//! [`config::CONTROLLERS`]) puts the keys of what changed in a queue; a worker gathers an object's surroundings from
//! the caches, *plans* the steps (pure functions) and has [`step::execute`] carry them out. The executor returns once
//! the caches show what it wrote, so that the next plan sees it: no controller keeps expectations.
//!
//! Invariants: an object is only ever changed by patches that name what they change; deletions carry the UID they
//! mean; every controller acts under its own identity when told to; caches are filled before the first plan.

mod admission_policy;
mod autoscaling;
pub mod caches;
mod certificates;
mod cluster_role_aggregation;
pub mod config;
pub mod context;
mod credentials;
mod cron_job;
mod daemon_set;
mod deployment;
mod discovery;
mod disruption;
mod endpoint_slice;
mod endpoints;
mod ephemeral_volume;
mod garbage_collector;
mod history;
mod job;
mod mirroring;
mod namespace;
mod node_lifecycle;
mod node_match;
mod node_ttl;
mod ownership;
mod persistent_volume;
mod pod_certificate_cleaner;
mod pod_gc;
mod replica_set;
mod resource_quota;
mod root_ca;
mod service_account;
mod service_cidr;
mod service_lb;
mod slices;
mod stateful_set;
mod status;
pub mod step;
mod storage_version;
mod template;
mod tokens;
mod ttl_after_finished;
pub mod views;
mod volume_protection;

pub use config::{Config, ControllersError, run};
