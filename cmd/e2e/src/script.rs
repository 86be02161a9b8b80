//! Scenarios that are shell scripts, because they must pass on upstream's server too: `tests/e2e/<name>/run.sh`.

use std::io::Write;
use std::path::{Path, PathBuf};

use copepod_testkit::{TestkitError, upstream};

/// Runs the script `name` on the bundle's API server, which it gets as `server`; the others are upstream's `programs`, by
/// the variables under which the script wants them. The variable `<NAME>_APISERVER` names another server.
///
/// Where a program has not been built a line says so, and nothing runs. With `REQUIRE_NODE=1` that is a failure for what
/// `make test` itself builds.
///
/// # Panics
/// When a check of the script fails; its line in the output says which.
pub fn run(name: &str, server: &str, programs: &[(&'static str, &str)], made_by_test: bool) {
    let find = |(variable, program): &(&'static str, &str)| -> Result<(&'static str, PathBuf), TestkitError> {
        Ok((*variable, upstream(program)?))
    };
    let found = match programs.iter().map(find).collect::<Result<Vec<_>, _>>() {
        Ok(found) => found,
        Err(error) => {
            let required = made_by_test && std::env::var("REQUIRE_NODE").as_deref() == Ok("1");
            assert!(!required, "{error}");
            // Past the harness, which keeps to itself what a test that passes prints.
            let told = writeln!(std::io::stderr(), "{name} is not run: {error}");
            return told.expect("standard error is open");
        }
    };
    let other = std::env::var(format!("{}_APISERVER", name.to_uppercase()));
    let ours = || format!("{} apiserver", crate::bundle().join("bin/copepod").display());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let status = copepod_sys::command("bash")
        .arg(root.join("tests/e2e").join(name).join("run.sh"))
        .env(server, other.unwrap_or_else(|_| ours()))
        .envs(found)
        .status()
        .expect("bash starts");
    assert!(status.success(), "a check failed; its line above says which");
}
