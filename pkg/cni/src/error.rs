//! Errors in the form a runtime understands: a number, a message and details (CNI specification 1.1, "Error").

use serde::{Deserialize, Serialize};

/// Error numbers of the specification that this plugin answers with.
pub mod code {
    /// The configuration's version is not supported.
    pub const INCOMPATIBLE_VERSION: u32 = 1;
    /// A field of the configuration is not supported.
    pub const UNSUPPORTED_FIELD: u32 = 2;
    /// The container is unknown or has gone.
    pub const UNKNOWN_CONTAINER: u32 = 3;
    /// A required environment variable is missing or wrong.
    pub const INVALID_ENVIRONMENT: u32 = 4;
    /// Reading, writing or a kernel call failed.
    pub const IO: u32 = 5;
    /// The input is no JSON of the expected form.
    pub const DECODE: u32 = 6;
    /// The configuration is valid JSON but contradicts itself.
    pub const INVALID_CONFIG: u32 = 7;
    /// A passing condition: the runtime should try again.
    pub const TRY_AGAIN: u32 = 11;
    /// STATUS: ADD cannot be served at present.
    pub const NOT_AVAILABLE: u32 = 50;
    /// CHECK: the pod's network is not as ADD left it (ours; 100 and up are free).
    pub const CHECK_FAILED: u32 = 101;
    /// ADD: no address is free (ours).
    pub const POOL_EXHAUSTED: u32 = 102;
}

/// A failed call, as it is printed on standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{msg}: {details}")]
pub struct CniError {
    /// The configuration's version, echoed.
    #[serde(rename = "cniVersion", default)]
    pub cni_version: String,
    /// See [`code`].
    pub code: u32,
    /// What failed, short.
    pub msg: String,
    /// Why, with names and addresses.
    pub details: String,
}

impl CniError {
    /// An error with number `code`.
    pub fn new(code: u32, msg: impl Into<String>, details: impl Into<String>) -> Self {
        Self { cni_version: String::new(), code, msg: msg.into(), details: details.into() }
    }

    /// A failed kernel or file operation.
    pub fn io(what: impl Into<String>, error: &std::io::Error) -> Self {
        Self::new(code::IO, what, error.to_string())
    }
}
