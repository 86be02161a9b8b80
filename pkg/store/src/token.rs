//! Continue tokens of chunked lists: opaque to clients, upstream's form inside.

use base64::{DecodeError, Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use crate::backend::Revision;

/// Why a token cannot be used; texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not base64, or not JSON.
    #[error("continue key is not valid: {0}")]
    Malformed(String),
    /// No revision.
    #[error("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")]
    NoRevision,
    /// No key to start at.
    #[error("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")]
    NoKey,
    /// A key that leaves the collection.
    #[error("continue key is not valid: {0}")]
    Escapes(String),
    /// Of another server.
    #[error("continue key is not valid: server does not recognize this encoded version {0}")]
    Version(String),
}

/// Where a chunked list goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinueToken {
    /// The list's revision; -1 goes on at the newest, inconsistently.
    pub revision: Revision,
    /// The first key of the next page, below the collection's prefix.
    pub start: String,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Wire {
    v: String,
    rv: Revision,
    start: String,
}

impl ContinueToken {
    /// The token as clients see it.
    #[must_use]
    pub fn encode(&self) -> String {
        let wire = Wire { v: "meta.k8s.io/v1".to_owned(), rv: self.revision, start: self.start.clone() };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    /// Reads a token.
    ///
    /// # Errors
    /// A token this server did not make, or one whose key leaves the collection.
    pub fn decode(text: &str) -> Result<Self, TokenError> {
        let bytes =
            URL_SAFE_NO_PAD.decode(text).map_err(|error| TokenError::Malformed(illegal(&error, text)))?;
        let wire: Wire = serde_json::from_slice(&bytes).map_err(|error| {
            TokenError::Malformed(copepod_api::json::error(&bytes).unwrap_or_else(|| error.to_string()))
        })?;
        if wire.v != "meta.k8s.io/v1" {
            return Err(TokenError::Version(wire.v));
        }
        if wire.rv == 0 {
            return Err(TokenError::NoRevision);
        }
        if wire.start.is_empty() {
            return Err(TokenError::NoKey);
        }
        let key = wire.start.strip_prefix('/').unwrap_or(&wire.start);
        if key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(TokenError::Escapes(wire.start));
        }
        Ok(Self { revision: wire.rv, start: key.to_owned() })
    }
}

/// What Go's decoder says of a text that is not base64.
fn illegal(error: &DecodeError, text: &str) -> String {
    let at = match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => *at,
        DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len().saturating_sub(1),
    };
    format!("illegal base64 data at input byte {at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip_and_bad_ones_are_refused() {
        let token = ContinueToken { revision: 12, start: "ns/a\0".to_owned() };
        assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
        let bad = |rv: i64, start: &str| {
            ContinueToken::decode(&ContinueToken { revision: rv, start: start.to_owned() }.encode())
        };
        assert_eq!(bad(0, "a"), Err(TokenError::NoRevision));
        assert_eq!(bad(1, ""), Err(TokenError::NoKey));
        assert!(matches!(bad(1, "../secrets/x"), Err(TokenError::Escapes(_))));
        assert!(matches!(ContinueToken::decode("!!"), Err(TokenError::Malformed(_))));
        assert!(matches!(ContinueToken::decode("e30"), Err(TokenError::Version(_))));
    }
}
