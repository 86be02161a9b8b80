//! The hidden processes of a node, and the switch in front of `main` that turns this program into one of them.

mod boot;
mod enter;
mod init;
mod keeper;
mod links;
mod mounts;
mod services;

pub(crate) use init::LEAF;
pub(crate) use mounts::LAN_NAMESPACE;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::TestkitError;

/// The name under which this program is started as a stage; nobody types it by accident.
const STAGE_NAME: &str = "copepod-namespaces";

/// A hidden process of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Keeper,
    Boot,
    Init,
    Enter,
}

impl Stage {
    fn word(self) -> &'static str {
        match self {
            Self::Keeper => "keeper",
            Self::Boot => "boot",
            Self::Init => "init",
            Self::Enter => "enter",
        }
    }

    /// This program, started again as this stage with `spec`.
    pub(crate) fn command(self, spec: &impl Serialize) -> Command {
        let spec = serde_json::to_string(spec).expect("specs are plain structs of strings and numbers");
        let mut command = copepod_sys::command("/proc/self/exe");
        command.arg0(STAGE_NAME).arg(self.word()).arg(spec);
        command
    }
}

/// Becomes a hidden process of a node if this program was started as one; otherwise does nothing.
///
/// Call it first thing in `main`, while the process has one thread: namespaces belong to threads.
pub fn dispatch() {
    let mut args = std::env::args_os();
    if args.next().is_none_or(|name| name != STAGE_NAME) {
        return;
    }
    let stage = args.next().and_then(|word| word.into_string().ok()).unwrap_or_default();
    let spec = args.next().and_then(|spec| spec.into_string().ok()).unwrap_or_default();
    let code = match stage.as_str() {
        "keeper" => with_spec(&spec, |spec| keeper::run(&spec)),
        "boot" => with_spec(&spec, |spec| boot::run(&spec)),
        "init" => with_spec(&spec, |spec| init::run(&spec)),
        "enter" => with_spec(&spec, |spec| enter::run(&spec, args.collect::<Vec<OsString>>())),
        _ => crate::spec::EXIT_FAILED,
    };
    #[expect(
        clippy::exit,
        reason = "the stage is a whole program; nothing of the caller's main may run after it"
    )]
    std::process::exit(code);
}

/// Exit codes are what stages say to each other; an error text goes to standard error.
fn with_spec<S: DeserializeOwned>(spec: &str, run: impl FnOnce(S) -> Result<i32, TestkitError>) -> i32 {
    let failed = |text: String| {
        report(&text);
        crate::spec::EXIT_FAILED
    };
    match serde_json::from_str(spec) {
        Ok(spec) => run(spec).unwrap_or_else(|error| failed(error.chain())),
        Err(error) => failed(error.to_string()),
    }
}

#[expect(clippy::print_stderr, reason = "a stage has no log but its standard error")]
fn report(text: &str) {
    eprintln!("{STAGE_NAME}: {text}");
}
