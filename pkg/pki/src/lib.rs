//! Keys and certificates of a node, and the tokens signed with them.
//!
//! [`Authority`] is a certificate authority on disk, made once and never regenerated: a damaged one is an error that
//! names the file. [`Leaf`] describes a certificate an authority issues; [`Authority::ensure`] keeps the one on disk
//! while it still fits its description and has time left, and replaces it atomically otherwise.
//!
//! All keys of the node are ECDSA P-256. `NotBefore` lies in the past by [`BACKDATE_DAYS`], so that a board without a clock
//! battery, which boots with yesterday's time, still trusts its own certificates.

mod authority;
mod blocks;
mod error;
pub mod jwt;
mod key_pair;
mod leaf;
mod pem;
mod request;
mod signing_key;
mod subject;
mod verify;

pub use authority::{Authority, BACKDATE_DAYS, not_after, self_signed};
pub use blocks::{decode_blocks, encode_certificates};
pub use error::PkiError;
pub use key_pair::key_pair;
pub use leaf::{Leaf, Usage};
pub use pem::write_private;
pub use request::{StubRequest, StubRequestError, stub_request};
pub use signing_key::ensure_signing_key;
pub use subject::{Subject, subject};
pub use verify::ServerVerifier;
