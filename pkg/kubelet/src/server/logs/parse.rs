//! The CRI log format: `<time> <stream> <tags> <content>`.

use jiff::Timestamp;

/// One line of a log file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The time as written.
    pub(super) stamp: &'a str,
    /// The time, when it can be read.
    pub(super) time: Option<Timestamp>,
    pub(super) stream: &'a str,
    /// Whether the process had not ended the line: the next one goes on.
    pub(super) partial: bool,
    pub(super) content: &'a [u8],
}

/// Parses a line without its newline; `None` for what the runtime has not written.
pub(super) fn line(bytes: &[u8]) -> Option<Line<'_>> {
    let mut parts = bytes.splitn(4, |b| *b == b' ');
    let mut word = || std::str::from_utf8(parts.next()?).ok();
    let (stamp, stream, tags) = (word()?, word()?, word()?);
    if stream != "stdout" && stream != "stderr" {
        return None;
    }
    let content = parts.next().unwrap_or_default();
    let partial = tags.split(':').next() == Some("P");
    Some(Line { stamp, time: stamp.parse().ok(), stream, partial, content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let parsed = line(b"2026-11-30T12:00:00.000000001Z stdout P a  b").unwrap();
        assert_eq!((parsed.stream, parsed.partial, parsed.content), ("stdout", true, b"a  b".as_slice()));
        assert!(parsed.time.is_some());
        assert_eq!(line(b"2026-11-30T12:00:00Z stderr F ").unwrap().content, b"");
        assert!(line(b"garbage").is_none());
    }
}
