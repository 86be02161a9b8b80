//! Address management: which pod has which address, and the service that answers the plugin.
//!
//! [`pool`] decides (pure), the record area of the [`NodeStore`](crate::NodeStore) remembers, [`nat`] renders the
//! kernel table, `server` ties them together.

pub(crate) mod book;
pub(crate) mod nat;
pub(crate) mod pool;
mod server;

pub use book::IpamError;
pub use server::{Config, serve};
