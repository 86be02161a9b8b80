//! The CNI plugin binary: environment and standard input in, one JSON document out.

use std::io::{Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut input = Vec::new();
    let outcome = match std::io::stdin().read_to_end(&mut input) {
        Ok(_) => copepod_cni::plugin::run(|name| std::env::var(name).ok(), &input),
        Err(error) => Err(copepod_cni::CniError::io("read standard input", &error)),
    };
    let (document, code) = match &outcome {
        Ok(None) => return ExitCode::SUCCESS,
        Ok(Some(value)) => (serde_json::to_vec(value), ExitCode::SUCCESS),
        Err(error) => (serde_json::to_vec(error), ExitCode::FAILURE),
    };
    let written = document.map(|bytes| std::io::stdout().write_all(&bytes));
    if matches!(written, Ok(Ok(()))) { code } else { ExitCode::FAILURE }
}
