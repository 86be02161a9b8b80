//! stand-in while the rest compiles
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use crate::registry::Registry;
pub(crate) fn start(_registry: &Arc<Registry>, _shutdown: &CancellationToken) {}
