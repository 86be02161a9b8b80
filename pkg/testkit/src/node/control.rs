//! The wire form of the control socket: one JSON document a line.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::TestkitError;

/// Writes one message. A line this short is written at once, so two writers on one socket do not mix.
pub(crate) fn send(socket: &mut UnixStream, message: &impl Serialize) -> Result<(), TestkitError> {
    let mut line = serde_json::to_vec(message).map_err(|e| TestkitError::Control(e.into()))?;
    line.push(b'\n');
    socket.write_all(&line).map_err(TestkitError::Control)
}

/// Reads one message; `None` when the other side is gone.
///
/// It reads byte by byte and so never takes what belongs to the next reader of the same socket.
pub(crate) fn receive<T: DeserializeOwned>(socket: &mut UnixStream) -> Result<Option<T>, TestkitError> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match socket.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) if byte == *b"\n" => break,
            Ok(_) => line.extend_from_slice(&byte),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(TestkitError::Control(error)),
        }
    }
    serde_json::from_slice(&line).map(Some).map_err(|e| TestkitError::Control(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Reply;

    #[test]
    fn messages_arrive_one_by_one_and_the_end_is_seen() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        send(&mut here, &Reply::Born { init: 7 }).unwrap();
        send(&mut here, &Reply::Failed("line\nbreak".to_string())).unwrap();
        drop(here);
        assert_eq!(receive(&mut there).unwrap(), Some(Reply::Born { init: 7 }));
        assert_eq!(receive(&mut there).unwrap(), Some(Reply::Failed("line\nbreak".to_string())));
        assert_eq!(receive::<Reply>(&mut there).unwrap(), None);
    }

    #[test]
    fn garbage_is_an_error() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        here.write_all(b"{nonsense}\n").unwrap();
        assert!(receive::<Reply>(&mut there).is_err());
    }
}
