//! The API as upstream answers it: every recorded request of `testdata/oracle` on our API server.
//!
//! The answers were recorded from upstream's kube-apiserver (`cargo xtask oracle record`); no Go is needed here.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use copepod_replay::{Answer, Script, Server, compare, golden, play};
use copepod_testkit::Implementation;
use libtest_mimic::{Arguments, Failed, Trial};

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/oracle");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "http"));
    files.sort();
    files
}

/// All requests of a script that are not known to differ must be answered as upstream answered them.
fn check(file: &Path, server: &Server) -> Result<(), Failed> {
    let script = Script::read(file)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ours = runtime.block_on(play(&script, &server.target))?;
    let known =
        |answer: &Answer| script.requests.iter().any(|r| r.title == answer.request && !r.differs.is_empty());
    let mut upstream = golden::read(&golden::path(file))?;
    upstream.retain(|answer| !known(answer));
    let found: Vec<String> = compare(&ours, &upstream).iter().map(ToString::to_string).collect();
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}

fn main() -> ExitCode {
    copepod_testkit::dispatch();
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let ours = std::env::var_os("ORACLE_COPEPOD")
        .map_or_else(|| copepod_e2e::bundle().join("bin/copepod"), PathBuf::from);
    let server = (!arguments.list).then(|| Server::start("replay", Implementation::Ours(ours)));
    let server = server.map(Arc::new);
    let trials = scripts().into_iter().map(|file| {
        let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let server = server.clone();
        Trial::test(format!("oracle::{name}"), move || match server.as_deref() {
            Some(Ok(server)) => check(&file, server),
            Some(Err(error)) => Err(Failed::from(format!("{error:?}"))),
            None => Err(Failed::from("listing starts no server")),
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    let stopped = server.and_then(Arc::into_inner).map(|server| server.map(Server::stop));
    match stopped {
        Some(Ok(Err(_))) => ExitCode::FAILURE,
        _ => conclusion.exit_code(),
    }
}
