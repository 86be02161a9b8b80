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

/// Removes the pod network's table from the kernel; for a node that is being uninstalled.
///
/// # Errors
/// The kernel's refusal.
pub async fn cleanup() -> Result<(), copepod_dataplane::nft::NftError> {
    let session = copepod_dataplane::nft::Session::open(nat::TABLE)?;
    session.commit(session.begin_remove()).await
}
