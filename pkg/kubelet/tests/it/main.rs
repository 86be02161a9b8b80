//! The kubelet end to end: real containerd and runc on a node in namespaces of its own.
//!
//! Needs root and upstream's programs (`cargo xtask upstream build`). Where they are missing the
//! test says so in one line and passes, or fails when `REQUIRE_NODE=1`.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::exit,
    reason = "a test, with a main function of its own"
)]

mod bench;
mod control_plane;
mod static_pods;
mod with_api;

use copepod_testkit::dispatch;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    dispatch();
    if std::env::args().nth(1).as_deref() == Some(bench::KUBELET) {
        bench::be_kubelet();
        return;
    }
    if let Some(missing) = bench::missing().or_else(control_plane::missing) {
        println!("kubelet end-to-end tests skipped: {missing}");
        if std::env::var("REQUIRE_NODE").as_deref() == Ok("1") {
            std::process::exit(1);
        }
        return;
    }
    let test = |name: &str, run: fn() -> Result<(), Failed>| Trial::test(name, run);
    let trials =
        vec![test("static_pods", static_pods::static_pods), test("deployment", with_api::deployment)];
    // Each makes a node of its own; two at once would only measure each other.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials).exit();
}
