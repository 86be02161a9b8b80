//! The key that signs service-account tokens.

use std::path::Path;

use rcgen::KeyPair;

use crate::error::PkiError;
use crate::pem::{read_optional, write_private};

/// Makes sure that `<dir>/sa.key` and `<dir>/sa.pub` hold a key pair. The public half is derived again when missing.
///
/// # Errors
/// A damaged private key is an error: a new one would void every token handed out.
pub fn ensure_signing_key(dir: &Path) -> Result<(), PkiError> {
    let (private, public) = (dir.join("sa.key"), dir.join("sa.pub"));
    let key = if let Some(pem) = read_optional(&private)? {
        crate::key_pair(&pem).map_err(|e| PkiError::Damaged {
            path: private,
            what: "a private key",
            why: e.to_string(),
        })?
    } else {
        let key =
            KeyPair::generate().map_err(|source| PkiError::Issue { name: "sa.key".to_owned(), source })?;
        write_private(&private, &key.serialize_pem(), 0o600)?;
        key
    };
    if read_optional(&public)?.is_none_or(|pem| pem != key.public_key_pem()) {
        write_private(&public, &key.public_key_pem(), 0o644)?;
    }
    Ok(())
}
