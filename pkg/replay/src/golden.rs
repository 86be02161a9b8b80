//! Recorded answers: a file beside each script, one answer a line.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Answer, ReplayError};

/// Where the answers to a script are kept.
#[must_use]
pub fn path(script: &Path) -> PathBuf {
    script.with_extension("answers.jsonl")
}

/// Reads recorded answers.
///
/// # Errors
/// A file that cannot be read, or holds something else.
pub fn read(path: &Path) -> Result<Vec<Answer>, ReplayError> {
    let text =
        fs::read_to_string(path).map_err(|source| ReplayError::File { path: path.to_owned(), source })?;
    let parse = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|e| ReplayError::Script { line: at + 1, why: e.to_string() })
    };
    text.lines().enumerate().map(parse).collect()
}

/// Writes answers.
///
/// # Errors
/// A file that cannot be written.
pub fn write(path: &Path, answers: &[Answer]) -> Result<(), ReplayError> {
    let mut text = String::new();
    for answer in answers {
        text.push_str(&serde_json::to_string(answer).expect("an answer has string keys"));
        text.push('\n');
    }
    fs::write(path, text).map_err(|source| ReplayError::File { path: path.to_owned(), source })
}
