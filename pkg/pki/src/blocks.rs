//! Certificates in PEM text: what is around and between the blocks is dropped.

use ::pem::{EncodeConfig, LineEnding, Pem};

/// The contents of every block, in order; text that is no block is skipped.
#[must_use]
pub fn decode_blocks(text: &str) -> Vec<Vec<u8>> {
    ::pem::parse_many(text).unwrap_or_default().into_iter().map(Pem::into_contents).collect()
}

/// The blocks as certificates, without headers or text between them, in Go's layout.
#[must_use]
pub fn encode_certificates<'a>(blocks: impl IntoIterator<Item = &'a Vec<u8>>) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    let blocks = blocks.into_iter().map(|der| Pem::new("CERTIFICATE", der.clone()));
    blocks.map(|block| ::pem::encode_config(&block, config)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_are_left() {
        let text = "remark\n-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\nbetween\n\
                    -----BEGIN X509-----\nAw==\n-----END X509-----\n";
        let blocks = decode_blocks(text);
        assert_eq!(blocks, [vec![0, 1, 2], vec![3]]);
        assert_eq!(
            encode_certificates(&blocks),
            "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n\
             -----BEGIN CERTIFICATE-----\nAw==\n-----END CERTIFICATE-----\n"
        );
        assert!(decode_blocks("nothing").is_empty());
    }
}
