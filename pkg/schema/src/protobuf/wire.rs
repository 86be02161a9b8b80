//! The wire format: tags, varints, lengths.

use super::ProtobufError;

/// A field as it stands on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'b> {
    pub(super) number: u32,
    pub(super) content: Content<'b>,
}

/// The content of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'b> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'b [u8]),
    Fixed32,
}

impl<'b> Field<'b> {
    const fn wrong(&self) -> ProtobufError {
        ProtobufError::WireType { number: self.number }
    }

    pub(super) fn bytes(&self) -> Result<&'b [u8], ProtobufError> {
        if let Content::Bytes(bytes) = self.content { Ok(bytes) } else { Err(self.wrong()) }
    }

    pub(super) fn text(&self) -> Result<&'b str, ProtobufError> {
        std::str::from_utf8(self.bytes()?)
            .map_err(|_| ProtobufError::Content(format!("field {} contains invalid UTF-8", self.number)))
    }

    /// A varint as the signed number that 32 and 64 bit fields share.
    pub(super) fn signed(&self) -> Result<i64, ProtobufError> {
        if let Content::Varint(value) = self.content { Ok(value.cast_signed()) } else { Err(self.wrong()) }
    }

    pub(super) fn double(&self) -> Result<f64, ProtobufError> {
        if let Content::Fixed64(bits) = self.content { Ok(f64::from_bits(bits)) } else { Err(self.wrong()) }
    }
}

/// The fields of a message.
pub(super) struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    pub(super) const fn new(message: &'b [u8]) -> Self {
        Self { rest: message }
    }

    fn take(&mut self, len: usize) -> Result<&'b [u8], ProtobufError> {
        let (head, tail) = self.rest.split_at_checked(len).ok_or(ProtobufError::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    fn fixed64(&mut self) -> Result<u64, ProtobufError> {
        let bytes = self.take(8)?.try_into().map_err(|_| ProtobufError::Truncated)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn field(&mut self) -> Result<Field<'b>, ProtobufError> {
        let tag = varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Truncated)?;
        let content = match tag & 7 {
            0 => Content::Varint(varint(&mut self.rest)?),
            1 => Content::Fixed64(self.fixed64()?),
            2 => {
                let len = usize::try_from(varint(&mut self.rest)?).map_err(|_| ProtobufError::Truncated)?;
                Content::Bytes(self.take(len)?)
            }
            5 => {
                self.take(4)?;
                Content::Fixed32
            }
            _ => return Err(ProtobufError::WireType { number }),
        };
        Ok(Field { number, content })
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<Field<'b>, ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Takes one varint off the front.
pub(super) fn varint(rest: &mut &[u8]) -> Result<u64, ProtobufError> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first().ok_or(ProtobufError::Truncated)?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ProtobufError::Truncated)
}

fn put_raw_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or_default());
}

pub(crate) fn put_varint(out: &mut Vec<u8>, number: u16, value: i64) {
    put_raw_varint(out, u64::from(number) << 3);
    put_raw_varint(out, value.cast_unsigned());
}

pub(crate) fn put_double(out: &mut Vec<u8>, number: u16, value: f64) {
    put_raw_varint(out, (u64::from(number) << 3) | 1);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u16, bytes: &[u8]) {
    put_raw_varint(out, (u64::from(number) << 3) | 2);
    put_raw_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
