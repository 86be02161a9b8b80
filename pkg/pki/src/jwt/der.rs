//! Just enough DER to take keys apart and wrap them.

/// Tags used here.
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const SEQUENCE: u8 = 0x30;

/// Splits the first element off: its tag, its contents, the rest.
pub(super) fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 {
            return None;
        }
        let (bytes, after) = rest.split_at_checked(count)?;
        length = bytes.iter().fold(0, |n, b| (n << 8) | usize::from(*b));
        rest = after;
    }
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

/// The contents of the first element, which must have `tag`, and the rest.
pub(super) fn expect(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(input).filter(|(t, ..)| *t == tag).map(|(_, contents, rest)| (contents, rest))
}

/// An element with `tag` around `contents`.
pub(super) fn wrap(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = contents.len();
    if length < 0x80 {
        out.push(u8::try_from(length).unwrap_or_default());
    } else {
        let bytes = length.to_be_bytes();
        let significant: Vec<u8> = bytes.iter().copied().skip_while(|b| *b == 0).collect();
        out.push(0x80 | u8::try_from(significant.len()).unwrap_or_default());
        out.extend(significant);
    }
    out.extend_from_slice(contents);
    out
}
