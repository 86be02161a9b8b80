//! JSON Web Tokens in compact form, signed with ES256 or RS256, and the JWKS that publishes the keys.
//!
//! Keys are read from PEM in every form that Kubernetes' `--service-account-key-file` accepts: PKCS #8, PKCS #1 and
//! SEC 1 private keys, SPKI and PKCS #1 public keys, certificates. A key's id is the SHA-256 of its SPKI, so that a
//! token names its key the same way upstream's do.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::{rand::SystemRandom, signature};
use serde_json::{Value, json};

mod der;
mod key;

pub use key::{PublicKey, SigningKey, TokenKeyError};

/// Why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not three base64 parts with JSON in the first two.
    #[error("the token is not a JSON web token")]
    Malformed,
    /// No known key has the token's key id.
    #[error("invalid signature, no keys found")]
    UnknownKey,
    /// No key with its id made the signature.
    #[error("invalid signature")]
    Signature,
}

impl SigningKey {
    /// Signs `claims`; `header` fields beside `alg` and `kid` are not written.
    ///
    /// # Errors
    /// When the random source or the key fails.
    pub fn sign(&self, claims: &Value) -> Result<String, TokenKeyError> {
        let public = self.public();
        let header = json!({ "alg": public.algorithm(), "kid": public.id() });
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = self.raw_sign(&SystemRandom::new(), signed.as_bytes())?;
        Ok(format!("{signed}.{}", encode(signature)))
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decode_json(part: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// The claims of a token, not verified in any way: for choosing who is to verify it.
#[must_use]
pub fn unverified_claims(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    decode_json(claims)
}

/// Checks the signature of a token with the keys that match its key id and returns its claims. Times, issuer and
/// audience are the caller's to check.
///
/// # Errors
/// When the token is malformed or no key made its signature.
pub fn verify(token: &str, keys: &[PublicKey]) -> Result<Value, TokenError> {
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
    let header = decode_json(header).ok_or(TokenError::Malformed)?;
    let claims = decode_json(claims).ok_or(TokenError::Malformed)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Malformed)?;
    let id = header.get("kid").and_then(Value::as_str).unwrap_or_default();
    let algorithm = header.get("alg").and_then(Value::as_str).unwrap_or_default();
    let mut candidates = keys.iter().filter(|k| id.is_empty() || k.id() == id).peekable();
    if candidates.peek().is_none() {
        return Err(TokenError::UnknownKey);
    }
    let made_by = |key: &PublicKey| {
        // The algorithm is the key's, never the token's choice alone.
        key.algorithm() == algorithm && key.raw_verify(signed.as_bytes(), &signature)
    };
    if candidates.any(made_by) { Ok(claims) } else { Err(TokenError::Signature) }
}

impl PublicKey {
    fn raw_verify(&self, message: &[u8], sig: &[u8]) -> bool {
        let scheme: &dyn signature::VerificationAlgorithm = match self.algorithm() {
            "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
            _ => &signature::ECDSA_P256_SHA256_FIXED,
        };
        signature::UnparsedPublicKey::new(scheme, self.bytes()).verify(message, sig).is_ok()
    }

    /// The key as a JWK.
    #[must_use]
    pub fn to_jwk(&self) -> Value {
        match self.rsa_numbers() {
            Some((n, e)) => json!({
                "use": "sig", "kty": "RSA", "kid": self.id(), "alg": "RS256", "n": encode(n), "e": encode(e),
            }),
            None => {
                let (x, y) = self.bytes().get(1..65).map_or((&[][..], &[][..]), |point| point.split_at(32));
                json!({
                    "use": "sig", "kty": "EC", "kid": self.id(), "crv": "P-256", "alg": "ES256",
                    "x": encode(x), "y": encode(y),
                })
            }
        }
    }
}

/// The keys of all files, for verification.
///
/// # Errors
/// Names the file that cannot be read or holds no key.
pub fn load_public_keys(files: &[impl AsRef<Path>]) -> Result<Vec<PublicKey>, TokenKeyError> {
    let mut keys: Vec<PublicKey> = Vec::new();
    for file in files {
        let path = file.as_ref();
        let pem =
            std::fs::read(path).map_err(|source| TokenKeyError::File { path: path.to_owned(), source })?;
        let found = PublicKey::all_from_pem(&pem);
        if found.is_empty() {
            return Err(TokenKeyError::NoKey { path: path.to_owned() });
        }
        for key in found {
            if keys.iter().all(|k| k.id() != key.id()) {
                keys.push(key);
            }
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests;
