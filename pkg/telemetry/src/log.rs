//! The log of a process: one line per event on standard error, where a service manager or the runtime collects it.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is not one.
    #[error("log filter {filter:?}: {source}")]
    Filter {
        /// As given.
        filter: String,
        /// What is wrong.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// Another part of the process has set it up already.
    #[error("logging is set up already")]
    Twice,
}

/// Sets up logging with a filter such as `info` or `copepod_kubelet=debug,info`.
///
/// # Errors
/// A filter that cannot be parsed, or a second call.
pub fn init(filter: &str) -> Result<(), LogError> {
    let parsed = EnvFilter::try_new(filter)
        .map_err(|source| LogError::Filter { filter: filter.to_owned(), source })?;
    tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init()
        .map_err(|_| LogError::Twice)
}
