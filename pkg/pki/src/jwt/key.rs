//! Keys that sign and verify tokens.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use x509_parser::pem::Pem;

use super::der;

/// `AlgorithmIdentifier` of P-256 keys.
const EC_P256: &[u8] =
    &[0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// `AlgorithmIdentifier` of RSA keys.
const RSA: &[u8] = &[0x30, 0x0d, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenKeyError {
    /// A file cannot be read.
    #[error("read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file holds no usable key.
    #[error("{path} holds no RSA or P-256 key in PEM form")]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// Signing failed.
    #[error("signing the token failed")]
    Sign,
}

/// A key that verifies tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    id: String,
    rsa: bool,
    /// PKCS #1 for RSA, the uncompressed point for P-256.
    bytes: Vec<u8>,
}

impl PublicKey {
    fn new(rsa: bool, bytes: Vec<u8>) -> Self {
        let mut bits = vec![0];
        bits.extend_from_slice(&bytes);
        let spki = [if rsa { RSA } else { EC_P256 }, &der::wrap(der::BIT_STRING, &bits)].concat();
        let digest = ring::digest::digest(&ring::digest::SHA256, &der::wrap(der::SEQUENCE, &spki));
        Self { id: URL_SAFE_NO_PAD.encode(digest), rsa, bytes }
    }

    /// The key's id: the SHA-256 of its SPKI in base64.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `RS256` or `ES256`.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        if self.rsa { "RS256" } else { "ES256" }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Modulus and exponent without leading zeros; `None` for P-256.
    pub(super) fn rsa_numbers(&self) -> Option<(&[u8], &[u8])> {
        if !self.rsa {
            return None;
        }
        let (numbers, _) = der::expect(&self.bytes, der::SEQUENCE)?;
        let (n, rest) = der::expect(numbers, der::INTEGER)?;
        let (e, _) = der::expect(rest, der::INTEGER)?;
        let trim = |bytes: &[u8]| bytes.iter().take_while(|b| **b == 0).count();
        Some((&n[trim(n)..], &e[trim(e)..]))
    }

    /// Every usable key in a PEM text: public keys, the public halves of private keys, and those of certificates.
    #[must_use]
    pub fn all_from_pem(pem: &[u8]) -> Vec<Self> {
        Pem::iter_from_buffer(pem)
            .filter_map(Result::ok)
            .filter_map(|block| Self::from_block(&block))
            .collect()
    }

    fn from_block(block: &Pem) -> Option<Self> {
        match block.label.as_str() {
            "PUBLIC KEY" => Self::from_spki(&block.contents),
            "RSA PUBLIC KEY" => Some(Self::new(true, block.contents.clone())),
            "CERTIFICATE" => {
                let certificate = block.parse_x509().ok()?;
                Self::from_spki(certificate.public_key().raw)
            }
            _ => SigningKey::from_block(block).map(|key| key.public().clone()),
        }
    }

    fn from_spki(spki: &[u8]) -> Option<Self> {
        let (fields, _) = der::expect(spki, der::SEQUENCE)?;
        let (_, _, rest) = der::element(fields)?;
        let algorithm = fields.get(..fields.len() - rest.len())?;
        let (bits, _) = der::expect(rest, der::BIT_STRING)?;
        let bytes = bits.get(1..)?.to_vec();
        match algorithm {
            RSA => Some(Self::new(true, bytes)),
            EC_P256 => Some(Self::new(false, bytes)),
            _ => None,
        }
    }
}

#[derive(Debug)]
enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
}

/// A key that signs tokens.
#[derive(Debug)]
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

impl SigningKey {
    /// Reads the first private key of a PEM file.
    ///
    /// # Errors
    /// Names the file when it cannot be read or holds no RSA or P-256 key.
    pub fn load(path: &Path) -> Result<Self, TokenKeyError> {
        let pem =
            std::fs::read(path).map_err(|source| TokenKeyError::File { path: path.to_owned(), source })?;
        Self::from_pem(&pem).ok_or_else(|| TokenKeyError::NoKey { path: path.to_owned() })
    }

    /// The first private key of a PEM text.
    #[must_use]
    pub fn from_pem(pem: &[u8]) -> Option<Self> {
        Pem::iter_from_buffer(pem).filter_map(Result::ok).find_map(|block| Self::from_block(&block))
    }

    fn from_block(block: &Pem) -> Option<Self> {
        let der = &block.contents;
        let pair = match block.label.as_str() {
            "RSA PRIVATE KEY" => Pair::Rsa(RsaKeyPair::from_der(der).ok()?),
            "EC PRIVATE KEY" => Pair::Ec(ec_from_sec1(der)?),
            "PRIVATE KEY" => match RsaKeyPair::from_pkcs8(der) {
                Ok(pair) => Pair::Rsa(pair),
                Err(_) => Pair::Ec(
                    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new())
                        .ok()?,
                ),
            },
            _ => return None,
        };
        let public = match &pair {
            Pair::Rsa(pair) => PublicKey::new(true, pair.public().as_ref().to_vec()),
            Pair::Ec(pair) => PublicKey::new(false, pair.public_key().as_ref().to_vec()),
        };
        Some(Self { pair, public })
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(super) fn raw_sign(&self, random: &SystemRandom, message: &[u8]) -> Result<Vec<u8>, TokenKeyError> {
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, random, message, &mut signature)
                    .map_err(|_| TokenKeyError::Sign)?;
                Ok(signature)
            }
            Pair::Ec(pair) => {
                pair.sign(random, message).map(|s| s.as_ref().to_vec()).map_err(|_| TokenKeyError::Sign)
            }
        }
    }
}

/// RFC 5915: version, private key, `[0]` parameters, `[1]` public key.
fn ec_from_sec1(input: &[u8]) -> Option<EcdsaKeyPair> {
    let (fields, _) = der::expect(input, der::SEQUENCE)?;
    let (_, rest) = der::expect(fields, der::INTEGER)?;
    let (private, mut rest) = der::expect(rest, der::OCTET_STRING)?;
    let mut point = None;
    while let Some((tag, contents, after)) = der::element(rest) {
        if tag == 0xa1 {
            point = der::expect(contents, der::BIT_STRING).and_then(|(bits, _)| bits.get(1..));
        }
        rest = after;
    }
    let random = SystemRandom::new();
    EcdsaKeyPair::from_private_key_and_public_key(&ECDSA_P256_SHA256_FIXED_SIGNING, private, point?, &random)
        .ok()
}
