//! Keys and stub requests of pods: what a kubelet shows a signer to prove that it holds a key.

use rcgen::{CertificateParams, DistinguishedName, KeyPair, SignatureAlgorithm};

/// A fresh key with the request that proves its possession.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StubRequest {
    /// The private key: PKCS#8 in PEM.
    pub key_pem: String,
    /// A PKCS#10 request in DER that names nothing: a signer looks at its key alone.
    pub request: Vec<u8>,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum StubRequestError {
    /// A type that is none of the API's, or that this build cannot make.
    #[error("unknown key type {0:?}")]
    KeyType(String),
    /// The key or the request could not be made.
    #[error("while generating stub PKCS#10 request: {0}")]
    Generate(#[from] rcgen::Error),
}

/// The algorithm behind a `keyType` of a pod certificate projection.
fn algorithm(key_type: &str) -> Option<&'static SignatureAlgorithm> {
    match key_type {
        "ECDSAP256" => Some(&rcgen::PKCS_ECDSA_P256_SHA256),
        "ECDSAP384" => Some(&rcgen::PKCS_ECDSA_P384_SHA384),
        "ED25519" => Some(&rcgen::PKCS_ED25519),
        _ => None,
    }
}

/// Makes a key of a pod certificate's `keyType` and its request.
///
/// # Errors
/// For a type that cannot be made here (RSA and P-521 keys), and when the system has no randomness.
pub fn stub_request(key_type: &str) -> Result<StubRequest, StubRequestError> {
    let algorithm = algorithm(key_type).ok_or_else(|| StubRequestError::KeyType(key_type.to_owned()))?;
    let key = KeyPair::generate_for(algorithm)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key)?.der().to_vec();
    Ok(StubRequest { key_pem: key.serialize_pem().replace("\r\n", "\n"), request })
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::{FromDer, X509CertificationRequest};

    use super::*;

    #[test]
    fn requests_prove_their_key_and_name_nothing() {
        for key_type in ["ECDSAP256", "ECDSAP384", "ED25519"] {
            let made = stub_request(key_type).unwrap();
            let (_, request) = X509CertificationRequest::from_der(&made.request).unwrap();
            request.verify_signature().unwrap();
            assert_eq!(request.certification_request_info.subject.iter().count(), 0, "{key_type}");
            assert!(made.key_pem.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{}", made.key_pem);
        }
        assert_eq!(stub_request("DSA").unwrap_err().to_string(), "unknown key type \"DSA\"");
    }
}
