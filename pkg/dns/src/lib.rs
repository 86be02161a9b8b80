//! The cluster's DNS server: the Kubernetes DNS specification (1.1) from what the API says, everything else from the
//! resolvers of the machine it runs on.
//!
//! ```text
//! UDP/TCP :53 ─▶ query ─┬─ in the cluster's zone, or an address of the cluster ─▶ zone (pure) over informers
//!                       └─ anything else ─▶ cache ─▶ forward to the upstreams of resolv.conf
//! ```
//!
//! Answers of the zone are computed at once, in the loop that reads the socket; only a forwarded query gets a task.
//! Nothing of the zone is cached: the informers are the cache, so an answer is as fresh as the watch.
//!
//! Invariants: a query is never forwarded to ourselves (addresses of this machine are left out, and a probe with a
//! name nobody else knows shows a loop that goes round by another server); a name inside the zone is never forwarded;
//! before the first full list no name of the zone is answered, since "no such name" would be a lie.

mod cache;
mod catalog;
mod config;
mod forward;
mod message;
mod metrics;
mod run;
mod server;
mod upstream;
mod zone;

pub use catalog::{Catalog, EndpointView, ServicePort, ServiceSpec, ServiceView, SliceView};
pub use config::Config;
pub use run::{DnsError, run};
pub use zone::{Found, Zone};
