//! Why a request, or the making of a client, failed.

use std::path::PathBuf;

use copepod_api::{ApiError, Reason};

/// Result of client calls.
pub type Result<T> = std::result::Result<T, ClientError>;

/// Anything that can be the cause below a transport error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered with a failure.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The request did not get an answer.
    #[error("{method} {path} got no answer")]
    Transport {
        /// HTTP method.
        method: String,
        /// URL path without the query.
        path: String,
        /// Cause.
        #[source]
        source: BoxError,
    },
    /// The answer did not come in time.
    #[error("{method} {path} was not answered within {seconds} s")]
    Timeout {
        /// HTTP method.
        method: String,
        /// URL path without the query.
        path: String,
        /// The limit in seconds.
        seconds: u64,
    },
    /// The answer, or the body to send, is not what was expected.
    #[error("cannot read or write the body of {what}")]
    Body {
        /// Which body.
        what: String,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
    /// A watch sent a line longer than any object can be.
    #[error("a watch event is longer than {limit} bytes")]
    EventTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// A file that the configuration names cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The configuration cannot be used.
    #[error("client configuration: {0}")]
    Config(String),
}

impl ClientError {
    /// The server's Status, when it gave one.
    #[must_use]
    pub fn api(&self) -> Option<&ApiError> {
        if let Self::Api(error) = self { Some(error) } else { None }
    }

    fn is(&self, reason: Reason) -> bool {
        self.api().is_some_and(|e| e.is(reason))
    }

    /// 404.
    #[must_use]
    pub fn not_found(&self) -> bool {
        self.is(Reason::NotFound)
    }

    /// 409 of a lost update or a failed precondition.
    #[must_use]
    pub fn conflict(&self) -> bool {
        self.is(Reason::Conflict)
    }

    /// 409 of a name in use.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.is(Reason::AlreadyExists)
    }

    /// 403.
    #[must_use]
    pub fn forbidden(&self) -> bool {
        self.is(Reason::Forbidden)
    }

    /// 422.
    #[must_use]
    pub fn invalid(&self) -> bool {
        self.is(Reason::Invalid)
    }

    /// 410: the resource version or continue token is too old.
    #[must_use]
    pub fn expired(&self) -> bool {
        self.is(Reason::Expired) || self.is(Reason::Gone)
    }

    /// A refusal because the namespace is being deleted.
    #[must_use]
    pub fn namespace_terminating(&self) -> bool {
        let cause = |e: &ApiError| {
            let details = e.status().details.as_ref();
            details.is_some_and(|d| d.causes.iter().any(|c| c.reason == "NamespaceTerminating"))
        };
        self.api().is_some_and(cause)
    }
}

/// Treats "not found" as absence.
pub trait OptionalExt<T> {
    /// `Ok(None)` for a 404.
    ///
    /// # Errors
    /// Every other error is passed on.
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExt<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
