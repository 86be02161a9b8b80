//! `cargo xtask oracle diff` and `record`: the same requests to both API servers.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use copepod_replay::{ALLOWED, Answer, Script, Server, compare, golden, play};
use copepod_testkit::Implementation;

use crate::workspace;

/// Where the scripts of the corpus are.
const CORPUS: &str = "testdata/oracle";

/// Scripts to replay.
#[derive(Debug, Args)]
pub(crate) struct Scripts {
    /// `.http` files; all of testdata/oracle where none is named.
    files: Vec<PathBuf>,
}

/// What to compare with what.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    scripts: Scripts,
    /// The program that is compared.
    #[arg(long, default_value = "bundle/current/bin/copepod")]
    copepod: PathBuf,
    /// Compare with the recorded answers, without upstream's server.
    #[arg(long)]
    recorded: bool,
    /// Show what answers may differ in, and end.
    #[arg(long)]
    allowed: bool,
}

impl Scripts {
    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        if !self.files.is_empty() {
            return Ok(self.files.clone());
        }
        let folder = workspace::root().join(CORPUS);
        let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "http"));
        files.sort();
        Ok(files)
    }
}

/// Replays all scripts on one server.
fn answers(who: Implementation, name: &str, files: &[PathBuf]) -> anyhow::Result<Vec<Vec<Answer>>> {
    let server = Server::start(name, who)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let played = runtime.block_on(async {
        let mut all = Vec::new();
        for file in files {
            let script = Script::read(file).with_context(|| file.display().to_string())?;
            all.push(play(&script, &server.target).await.with_context(|| file.display().to_string())?);
        }
        anyhow::Ok(all)
    });
    drop(runtime);
    server.stop()?;
    played
}

/// Records upstream's answers.
pub(crate) fn record(scripts: &Scripts) -> anyhow::Result<()> {
    let files = scripts.files()?;
    for (file, answers) in files.iter().zip(answers(Implementation::Upstream, "upstream", &files)?) {
        golden::write(&golden::path(file), &answers)?;
        println!("{}: {} answers", file.display(), answers.len());
    }
    Ok(())
}

/// Shows where ours and upstream's answers differ; an error when they do.
pub(crate) fn diff(diff: &Diff) -> anyhow::Result<()> {
    if diff.allowed {
        ALLOWED.iter().for_each(|allowed| println!("{}: {}", allowed.what, allowed.why));
        return Ok(());
    }
    let files = diff.scripts.files()?;
    let ours = Implementation::Ours(workspace::root().join(&diff.copepod));
    let ours = answers(ours, "ours", &files)?;
    let upstream = if diff.recorded {
        files.iter().map(|file| golden::read(&golden::path(file))).collect::<Result<_, _>>()?
    } else {
        answers(Implementation::Upstream, "upstream", &files)?
    };
    let (mut requests, mut differing) = (0, 0);
    for ((file, ours), upstream) in files.iter().zip(&ours).zip(&upstream) {
        let (count, differ) = show(file, ours, upstream)?;
        requests += count;
        differing += differ;
    }
    println!("{differing} of {requests} answers differ");
    if differing > 0 {
        bail!("not the same");
    }
    Ok(())
}

fn show(file: &Path, ours: &[Answer], upstream: &[Answer]) -> anyhow::Result<(usize, usize)> {
    let script = Script::read(file)?;
    let known =
        |title: &str| script.requests.iter().find(|r| r.title == title).map_or("", |r| r.differs.as_str());
    let mut counted: Vec<String> = Vec::new();
    for difference in compare(ours, upstream) {
        let why = known(&difference.request);
        if why.is_empty() {
            counted.push(difference.request.clone());
            println!("{}: {difference}", file.display());
        } else {
            println!("{}: known ({why}): {difference}", file.display());
        }
    }
    counted.dedup();
    Ok((script.requests.len(), counted.len()))
}
