//! Private keys in the forms that authorities come in: kubeadm writes PKCS#1, openssl SEC 1, we PKCS#8.

use rcgen::KeyPair;

/// `rsaEncryption` with no parameters, as an algorithm identifier.
const RSA: [u8; 15] =
    [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// `id-ecPublicKey`; the curve follows it.
const EC: [u8; 9] = [0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
/// The curve of a SEC 1 key.
const PARAMETERS: u8 = 0xa0;

/// Reads the first private key of a PEM text, remarks around it apart.
///
/// # Errors
/// When there is none, or none of a kind that can sign.
pub fn key_pair(text: &str) -> Result<KeyPair, rcgen::Error> {
    let blocks = ::pem::parse_many(text).map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
    let key = blocks.iter().find_map(|block| match block.tag() {
        "PRIVATE KEY" => Some(block.contents().to_vec()),
        "RSA PRIVATE KEY" => Some(pkcs8(&RSA, block.contents())),
        "EC PRIVATE KEY" => {
            let algorithm = [&EC[..], curve(block.contents())?].concat();
            Some(pkcs8(&element(SEQUENCE, &algorithm), block.contents()))
        }
        _ => None,
    });
    KeyPair::try_from(key.ok_or(rcgen::Error::CouldNotParseKeyPair)?)
}

/// A key of an algorithm in the envelope of PKCS#8.
fn pkcs8(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let version = element(INTEGER, &[0]);
    element(SEQUENCE, &[&version[..], algorithm, &element(OCTETS, key)].concat())
}

/// The object identifier of the curve that a SEC 1 key names.
fn curve(key: &[u8]) -> Option<&[u8]> {
    let (_, mut rest, _) = read(key)?;
    while let Some((tag, content, after)) = read(rest) {
        if tag == PARAMETERS {
            return Some(content);
        }
        rest = after;
    }
    None
}

/// Tag, content and what follows of the first element.
fn read(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = der.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (bytes.iter().fold(0_usize, |n, byte| n.wrapping_shl(8) | usize::from(*byte)), rest)
        }
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let skip = length.iter().take_while(|byte| **byte == 0).count();
    let significant = &length[skip.min(length.len() - 1)..];
    let mut out = vec![tag];
    if content.len() >= 0x80 {
        out.push(0x80 | u8::try_from(significant.len()).unwrap_or(0));
    }
    out.extend_from_slice(significant);
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_in_each_form() {
        let made = KeyPair::generate().expect("ring makes keys");
        let read_back = |tag: &str, der: Vec<u8>| {
            let text = format!("# a remark\n{}", ::pem::encode(&::pem::Pem::new(tag, der)));
            key_pair(&text).map(|key| key.public_key_raw().to_vec()).ok()
        };
        let whole = made.serialize_der();
        assert_eq!(read_back("PRIVATE KEY", whole.clone()).as_deref(), Some(made.public_key_raw()));
        // What lies in the envelope is a SEC 1 key without its curve, which openssl writes in.
        let (_, inside, _) = read(&whole).expect("a sequence");
        let (_, _, rest) = read(inside).expect("the version");
        let (_, algorithm, rest) = read(rest).expect("the algorithm");
        let (_, sec1, _) = read(rest).expect("the key");
        let (_, parts, _) = read(sec1).expect("a sequence");
        let (_, _, after_version) = read(parts).expect("the version");
        let (_, _, public) = read(after_version).expect("the number");
        let before = &parts[..parts.len() - public.len()];
        let named = [before, &element(PARAMETERS, &algorithm[EC.len()..]), public].concat();
        let sec1 = element(SEQUENCE, &named);
        assert_eq!(read_back("EC PRIVATE KEY", sec1).as_deref(), Some(made.public_key_raw()));
        assert_eq!(read_back("CERTIFICATE", whole), None);
    }

    #[test]
    fn lengths_are_written_as_short_as_they_go() {
        assert_eq!(element(OCTETS, &[1])[..2], [OCTETS, 1]);
        assert_eq!(element(OCTETS, &[0; 0x80])[..3], [OCTETS, 0x81, 0x80]);
        assert_eq!(element(OCTETS, &[0; 0x1234])[..4], [OCTETS, 0x82, 0x12, 0x34]);
        assert_eq!(element(OCTETS, &[]), [OCTETS, 0]);
    }
}
