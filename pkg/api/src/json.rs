//! What Go's JSON decoder says of a text that is no JSON.
//!
//! `serde_json` finds that something is wrong; clients and tests read what upstream calls it, so the text is looked at
//! once more, by the rules of Go's scanner, and only then.

/// Most open brackets.
const MAX_DEPTH: usize = 10_000;

/// Go's error for a text; `None` when it is JSON.
#[must_use]
pub fn error(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { text, at: 0, depth: 0 };
    scanner.document().err()
}

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
}

type Scan = Result<(), String>;

impl Scanner<'_> {
    fn document(&mut self) -> Scan {
        self.value("looking for beginning of value")?;
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => self.wrong("after top-level value"),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The error for the byte that is next.
    fn wrong(&self, place: &str) -> Scan {
        Err(match self.peek() {
            Some(byte) => format!("invalid character {} {place}", quoted(byte)),
            None => "unexpected end of JSON input".to_owned(),
        })
    }

    /// Takes the next byte when it is one of `wanted`.
    fn take(&mut self, wanted: &[u8], place: &str) -> Result<u8, String> {
        match self.peek().filter(|byte| wanted.contains(byte)) {
            Some(byte) => {
                self.at += 1;
                Ok(byte)
            }
            None => self.wrong(place).map(|()| 0),
        }
    }

    /// The same inside a token: Go's scanner is shown a space at the end of the text, and takes that ill.
    fn take_inside(&mut self, wanted: &[u8], place: &str) -> Result<u8, String> {
        match self.peek() {
            Some(_) => self.take(wanted, place),
            None => Err(format!("invalid character ' ' {place}")),
        }
    }

    fn value(&mut self, place: &str) -> Scan {
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => self.wrong(place),
        }
    }

    fn nested(&mut self, inner: impl FnOnce(&mut Self) -> Scan) -> Scan {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.at += 1;
        inner(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self) -> Scan {
        let mut first = true;
        loop {
            self.space();
            if first && self.peek() == Some(b'}') {
                self.at += 1;
                return Ok(());
            }
            first = false;
            if self.peek() != Some(b'"') {
                return self.wrong("looking for beginning of object key string");
            }
            self.string()?;
            self.space();
            self.take(b":", "after object key")?;
            self.value("looking for beginning of value")?;
            self.space();
            if self.take(b",}", "after object key:value pair")? == b'}' {
                return Ok(());
            }
        }
    }

    fn array(&mut self) -> Scan {
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value("looking for beginning of value")?;
            self.space();
            if self.take(b",]", "after array element")? == b']' {
                return Ok(());
            }
        }
    }

    fn string(&mut self) -> Scan {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(byte) if byte >= b' ' => self.at += 1,
                _ => return self.wrong("in string literal"),
            }
        }
    }

    fn escape(&mut self) -> Scan {
        self.at += 1;
        if self.take_inside(b"bfnrt\\/\"u", "in string escape code")? == b'u' {
            for _ in 0..4 {
                self.take_inside(b"0123456789abcdefABCDEF", "in \\u hexadecimal character escape")?;
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Scan {
        const DIGITS: &[u8] = b"0123456789";
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.take_inside(DIGITS, "in numeric literal")? != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.take_inside(DIGITS, "after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.take_inside(DIGITS, "in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn literal(&mut self, word: &str) -> Scan {
        self.at += 1;
        for letter in word.bytes().skip(1) {
            self.take_inside(&[letter], &format!("in literal {word} (expecting '{}')", char::from(letter)))?;
        }
        Ok(())
    }
}

/// A byte as Go shows it: the character of that number, quoted.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        0x07 => "'\\a'".to_owned(),
        0x08 => "'\\b'".to_owned(),
        0x0c => "'\\f'".to_owned(),
        0x0b => "'\\v'".to_owned(),
        b'\\' => "'\\\\'".to_owned(),
        b'\n' => "'\\n'".to_owned(),
        b'\r' => "'\\r'".to_owned(),
        b'\t' => "'\\t'".to_owned(),
        0x00..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        // Latin-1's control characters, no-break space and soft hyphen cannot be printed.
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::error;

    #[test]
    fn texts_are_those_of_go() {
        for (text, wanted) in [
            (&b""[..], "unexpected end of JSON input"),
            (b"{", "unexpected end of JSON input"),
            (b"{\"a\"", "unexpected end of JSON input"),
            (b"nope", "invalid character 'o' in literal null (expecting 'u')"),
            (b"x", "invalid character 'x' looking for beginning of value"),
            (b"{nope", "invalid character 'n' looking for beginning of object key string"),
            (b"{\"a\" 1}", "invalid character '1' after object key"),
            (b"{\"a\":1 \"b\":2}", "invalid character '\"' after object key:value pair"),
            (b"{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            (b"[1 2]", "invalid character '2' after array element"),
            (b"[1,]", "invalid character ']' looking for beginning of value"),
            (b"{} {}", "invalid character '{' after top-level value"),
            (b"01", "invalid character '1' after top-level value"),
            (b"-x", "invalid character 'x' in numeric literal"),
            (b"1.", "invalid character ' ' after decimal point in numeric literal"),
            (b"tru", "invalid character ' ' in literal true (expecting 'e')"),
            (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
            (b"1ex", "invalid character 'x' in exponent of numeric literal"),
            (b"\"\n\"", "invalid character '\\n' in string literal"),
            (b"\"\\q\"", "invalid character 'q' in string escape code"),
            (b"\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape"),
            (b"'a'", "invalid character '\\'' looking for beginning of value"),
            (b"\x9e", "invalid character '\\u009e' looking for beginning of value"),
        ] {
            assert_eq!(error(text).as_deref(), Some(wanted), "{}", String::from_utf8_lossy(text));
        }
        assert_eq!(error(b" {\"a\": [1, -2.5e+3, true, null, \"\\u00e4\\n\"], \"b\": {}} \n"), None);
    }
}
