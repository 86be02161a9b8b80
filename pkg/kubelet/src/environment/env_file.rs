//! `fileKeyRef`: a variable from a file that another container of the pod has written.
//!
//! The file holds `NAME='value'` lines, a small part of the shell's syntax; values are in single quotes, may go over
//! several lines, and are taken literally (`k8s.io/kubernetes/pkg/kubelet/util/env`).

use std::io::Read;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

/// Longest file that is read.
const MAX_FILE: u64 = 1 << 20;

/// Reads `path` of the volume at `root`, never leaving the volume whatever links it holds.
pub(super) fn read(root: &Path, path: &str) -> std::io::Result<String> {
    let dir = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = path.trim_start_matches('/');
    let file = openat2(&dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)?;
    let mut text = String::new();
    std::fs::File::from(file).take(MAX_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// The value of `key`; `None` when the file does not set it (or sets it to nothing).
///
/// # Errors
/// Names the line that is not in the syntax.
pub(super) fn value(text: &str, key: &str) -> Result<Option<String>, String> {
    let bad =
        |line: usize, why: &str| Err(format!("invalid environment variable format at line {line}: {why}"));
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, rest)) = line.split_once('=') else { return bad(number, "missing '='") };
        match name.trim_end_matches([' ', '\t']) {
            "" => return bad(number, "empty variable name"),
            trimmed if trimmed != name => return bad(number, "whitespace before '=' is not allowed"),
            _ => {}
        }
        if rest.starts_with([' ', '\t']) {
            // As a shell reads it: the variable is empty, the rest another word.
            if name == key {
                return Ok(None);
            }
            continue;
        }
        let Some(mut rest) = rest.strip_prefix('\'') else {
            return bad(number, "value must be enclosed in single quotes");
        };
        let mut value = String::new();
        let (end, after) = loop {
            if let Some((last, after)) = rest.split_once('\'') {
                value.push_str(last);
                break (number, after);
            }
            value.push_str(rest);
            value.push('\n');
            let Some((_, next)) = lines.next() else { return bad(number, "unclosed single quote") };
            rest = next;
        };
        let after = after.trim_start_matches([' ', '\t']);
        if !after.is_empty() && !after.starts_with('#') {
            return bad(end, "unexpected content after closing quote");
        }
        if name == key {
            return Ok(Some(value).filter(|v| !v.is_empty()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_syntax() {
        let text = "# remark\n\n  A='1' # one\nB='two\nlines'\nC= 'x'\nD='$A'\n";
        let get = |key: &str| value(text, key).unwrap();
        assert_eq!(get("A").as_deref(), Some("1"));
        assert_eq!(get("B").as_deref(), Some("two\nlines"));
        assert_eq!((get("C"), get("Z")), (None, None));
        assert_eq!(get("D").as_deref(), Some("$A"));
        for bad in ["A", "A ='1'", "='1'", "A=1", "A='1' x", "A='1"] {
            assert!(value(bad, "A").is_err(), "{bad}");
        }
    }

    #[test]
    fn links_do_not_lead_out_of_the_volume() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("volume");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(dir.path().join("secret"), "A='x'").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("out")).unwrap();
        std::fs::write(root.join("env"), "A='1'").unwrap();
        assert!(read(&root, "out").is_err());
        assert_eq!(read(&root, "env").unwrap(), "A='1'");
    }
}
