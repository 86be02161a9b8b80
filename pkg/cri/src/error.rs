//! The one error of the port.

use tonic::Code;

/// What went wrong between us and the runtime.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CriError {
    /// The runtime refused a call. The text is the form that upstream puts into events and
    /// waiting messages, so users and tests find the words they know.
    #[error("rpc error: code = {code:?} desc = {message}")]
    Rpc {
        /// The gRPC code.
        code: Code,
        /// The runtime's own words.
        message: String,
    },
    /// The endpoint is not a unix socket address.
    #[error("runtime endpoint {0:?} is not a unix socket (expected unix:///path)")]
    Endpoint(String),
}

impl CriError {
    /// The gRPC code; [`Code::InvalidArgument`] for a bad endpoint.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Rpc { code, .. } => *code,
            Self::Endpoint(_) => Code::InvalidArgument,
        }
    }

    /// The message without the gRPC prefix.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::Rpc { message, .. } => message.clone(),
            Self::Endpoint(_) => self.to_string(),
        }
    }
}

impl From<tonic::Status> for CriError {
    fn from(status: tonic::Status) -> Self {
        Self::Rpc { code: status.code(), message: status.message().to_owned() }
    }
}

/// Whether `error` says that the object does not exist, which most removals count as success.
#[must_use]
pub fn is_not_found(error: &CriError) -> bool {
    error.code() == Code::NotFound
}
