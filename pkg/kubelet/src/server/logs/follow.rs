//! Reading a log file, from where the client wants it, for as long as it grows.

use std::io::SeekFrom;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use hyper::body::Bytes;
use inotify::{EventStream, Inotify, WatchMask};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, BufReader};
use tokio::sync::mpsc;

use super::{Options, parse};
use crate::ports::NodeView;

/// How much is read backwards at a time in search of the last lines.
const BLOCK: u64 = 64 * 1024;
/// A container's end writes nothing, so that is looked for while nothing else happens.
const STATE_CHECK: Duration = Duration::from_secs(1);

pub(super) struct Reader {
    pub(super) view: Arc<dyn NodeView>,
    pub(super) uid: String,
    pub(super) container: String,
    pub(super) path: PathBuf,
    pub(super) options: Options,
}

impl Reader {
    /// Sends the log until its end, the client's limit or the client's going away.
    pub(super) async fn run(self, sender: mpsc::Sender<Bytes>) -> std::io::Result<()> {
        let mut events = if self.options.follow { Some(self.watch()?) } else { None };
        let mut file = File::open(&self.path).await?;
        let size = file.metadata().await?.len();
        let start = tail_start(&mut file, size, self.options.tail).await?;
        file.seek(SeekFrom::Start(start)).await?;
        // Without `follow` the log is what it was at the request: lines written since would make more of the last ones.
        let wanted = if self.options.follow { u64::MAX } else { size - start };
        let mut reader = BufReader::new(file.take(wanted));
        let mut left = self.options.limit_bytes;
        let mut line = Vec::new();
        loop {
            // Asked before reading: what a container wrote before its end is then read for sure.
            let running = self.running();
            while reader.read_until(b'\n', &mut line).await? > 0 {
                if line.last() != Some(&b'\n') {
                    break;
                }
                line.pop();
                if !self.send(&line, &mut left, &sender).await {
                    return Ok(());
                }
                line.clear();
            }
            let Some(events) = &mut events else { return Ok(()) };
            if self.rotated(reader.get_ref().get_ref()).await {
                reader = BufReader::new(File::open(&self.path).await?.take(u64::MAX));
                line.clear();
                continue;
            }
            if !running {
                return Ok(());
            }
            tokio::select! {
                () = sender.closed() => return Ok(()),
                _ = events.next() => {}
                () = tokio::time::sleep(STATE_CHECK) => {}
            }
        }
    }

    fn watch(&self) -> std::io::Result<EventStream<[u8; 1024]>> {
        let inotify = Inotify::init()?;
        let dir = self.path.parent().unwrap_or(&self.path);
        inotify.watches().add(dir, WatchMask::MODIFY | WatchMask::CREATE | WatchMask::MOVED_TO)?;
        inotify.into_event_stream([0; 1024])
    }

    /// Sends one line; `false` when no more is wanted.
    async fn send(&self, line: &[u8], left: &mut Option<usize>, sender: &mpsc::Sender<Bytes>) -> bool {
        let Some(parsed) = parse::line(line) else { return true };
        let Some(mut data) = self.options.render(&parsed) else { return true };
        if let Some(left) = left {
            data.truncate(*left);
            *left -= data.len();
        }
        let more = left.is_none_or(|n| n > 0);
        sender.send(data.into()).await.is_ok() && more
    }

    fn running(&self) -> bool {
        let pod = self.view.runtime_pod(&self.uid);
        pod.as_ref()
            .and_then(|p| p.container(&self.container))
            .is_some_and(crate::types::RuntimeContainer::is_running)
    }

    /// Whether the path names another file than the open one.
    async fn rotated(&self, open: &File) -> bool {
        let (Ok(open), Ok(named)) = (open.metadata().await, tokio::fs::metadata(&self.path).await) else {
            return false;
        };
        open.ino() != named.ino()
    }
}

/// The offset at which the last `tail` lines of the first `size` bytes begin.
async fn tail_start(file: &mut File, size: u64, tail: Option<usize>) -> std::io::Result<u64> {
    let Some(tail) = tail else { return Ok(0) };
    if tail == 0 {
        return Ok(size);
    }
    let (mut end, mut found, mut block) = (size, 0_usize, Vec::new());
    while end > 0 {
        let begin = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(begin)).await?;
        block.resize(usize::try_from(end - begin).unwrap_or(0), 0);
        file.read_exact(&mut block).await?;
        for (offset, byte) in block.iter().enumerate().rev() {
            let at = begin + offset as u64;
            // The newline that ends the file ends the last line; it begins none.
            if *byte == b'\n' && at + 1 < size {
                found += 1;
                if found == tail {
                    return Ok(at + 1);
                }
            }
        }
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_lines_begin_where_they_should() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        tokio::fs::write(&path, "one\ntwo\nthree\n").await.unwrap();
        let mut file = File::open(&path).await.unwrap();
        for (tail, want) in [(None, 0), (Some(0), 14), (Some(1), 8), (Some(2), 4), (Some(9), 0)] {
            assert_eq!(tail_start(&mut file, 14, tail).await.unwrap(), want, "{tail:?}");
        }
        assert_eq!(tail_start(&mut file, 8, Some(1)).await.unwrap(), 4, "what came later does not count");
    }
}
