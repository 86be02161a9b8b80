//! Log files of containers: paths, the CRI line format, tails, rotation.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;

use crate::pod::PodExt;

/// Longest file name Linux takes.
const MAX_NAME: usize = 255;

/// `/var/log/pods/<ns>_<name>_<uid>`.
#[must_use]
pub fn pod_log_dir(root: &Path, pod: &Pod) -> PathBuf {
    root.join(format!("{}_{}_{}", pod.namespace(), pod.name(), pod.uid()))
}

/// Path of one run's log, relative to the pod's directory.
#[must_use]
pub fn container_log_path(container: &str, restart_count: i32) -> String {
    format!("{container}/{restart_count}.log")
}

/// The symlink under `/var/log/containers` that log shippers tail.
#[must_use]
pub fn legacy_link(root: &Path, pod: &Pod, container: &str, id: &str) -> PathBuf {
    let tail = format!("-{id}.log");
    let mut head = format!("{}_{}_{container}", pod.name(), pod.namespace());
    let room = MAX_NAME.saturating_sub(tail.len());
    while head.len() > room {
        head.pop();
    }
    root.join(head + &tail)
}

/// The restart count that follows the newest log in `dir`; 0 without one. Used when the runtime
/// has forgotten a container, so that its old logs are not overwritten.
#[must_use]
pub fn restart_count_from_logs(dir: &Path) -> i32 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.split('.').next()?.parse::<i32>().ok())
        .max()
        .map_or(0, |newest| newest + 1)
}

/// One line of a CRI log: `<time> <stream> <tags> <content>`.
#[derive(Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// RFC 3339 time with nanoseconds.
    pub time: &'a str,
    /// `stdout` or `stderr`.
    pub stream: &'a str,
    /// Whether the line ends here (tag `F`) or goes on (`P`).
    pub full: bool,
    /// What the container wrote.
    pub content: &'a str,
}

/// Splits one line; `None` when it is not in CRI form.
#[must_use]
pub fn parse_line(line: &str) -> Option<LogLine<'_>> {
    let mut parts = line.splitn(4, ' ');
    let (time, stream, tags, content) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next().unwrap_or_default());
    matches!(stream, "stdout" | "stderr").then(|| LogLine {
        time,
        stream,
        full: tags.split(':').next() == Some("F"),
        content,
    })
}

/// What the container wrote last: at most `lines` lines and `bytes` bytes, without times.
pub async fn tail_text(path: &str, lines: usize, bytes: usize) -> String {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read_tail(Path::new(&path), bytes * 2 + 4096)).await;
    // No log is no message: the caller falls back to an empty one.
    let Ok(Ok(raw)) = read else { return String::new() };
    render_tail(&raw, lines, bytes)
}

fn read_tail(path: &Path, bytes: usize) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(bytes as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut buffer = Vec::new();
    file.take(bytes as u64).read_to_end(&mut buffer)?;
    let text = String::from_utf8_lossy(&buffer).into_owned();
    // A cut first line is not in CRI form and is dropped.
    Ok(if start > 0 {
        text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default()
    } else {
        text
    })
}

fn render_tail(raw: &str, lines: usize, bytes: usize) -> String {
    let mut out: Vec<String> = vec![String::new()];
    for line in raw.lines().filter_map(parse_line) {
        if let Some(last) = out.last_mut() {
            last.push_str(line.content);
        }
        if line.full {
            if let Some(last) = out.last_mut() {
                last.push('\n');
            }
            out.push(String::new());
        }
    }
    if out.last().is_some_and(String::is_empty) {
        out.pop();
    }
    // A last line that was never ended stays so.
    let mut text = out.split_off(out.len().saturating_sub(lines)).concat();
    let mut cut = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(cut) {
        cut += 1;
    }
    text.split_off(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_parse_and_partial_lines_join() {
        let raw = "2026-11-30T00:00:00.000000001Z stdout P ab\n2026-11-30T00:00:00.1Z stdout F c\n2026-11-30T00:00:00.2Z stderr F d e\nrubbish\n";
        assert_eq!(parse_line("t stdout F a b").unwrap().content, "a b");
        assert_eq!(parse_line("rubbish"), None);
        assert_eq!(render_tail(raw, 10, 100), "abc\nd e\n");
        assert_eq!(render_tail(raw, 1, 100), "d e\n");
        assert_eq!(render_tail(raw, 10, 3), " e\n");
        assert_eq!(render_tail("t stdout F a\nt stdout P DONE\n", 1, 100), "DONE");
    }

    #[test]
    fn paths_are_upstreams() {
        let pod: Pod = serde_json::from_value(
            serde_json::json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}}),
        )
        .unwrap();
        assert_eq!(pod_log_dir(Path::new("/l"), &pod), Path::new("/l/n_p_u"));
        assert_eq!(container_log_path("c", 3), "c/3.log");
        assert_eq!(legacy_link(Path::new("/k"), &pod, "c", "id"), Path::new("/k/p_n_c-id.log"));
        let long = legacy_link(Path::new("/"), &pod, &"x".repeat(300), &"a".repeat(64));
        assert_eq!(long.file_name().unwrap().len(), 255);
    }

    #[test]
    fn restart_count_follows_newest_log() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(restart_count_from_logs(dir.path()), 0);
        for name in ["0.log", "2.log", "2.log.20261130", "x"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(restart_count_from_logs(dir.path()), 3);
    }
}
