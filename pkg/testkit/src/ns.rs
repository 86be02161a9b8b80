//! Throw-away network namespaces: made by `ip netns`, gone when dropped. For tests of one crate that need no whole
//! [`Node`](crate::Node). What fails here fails the test: everything panics with the reason instead of returning it.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A named namespace of its own.
#[derive(Debug)]
pub struct Ns {
    /// Its name for `ip netns`.
    pub name: String,
}

/// Runs `ip` with words split at spaces; panics with its message when it fails.
pub fn ip(words: &str) -> String {
    run("ip", words)
}

/// Runs any program so.
pub fn run(program: &str, words: &str) -> String {
    let output =
        copepod_sys::command(program).args(words.split(' ')).output().expect("the program is installed");
    assert!(output.status.success(), "{program} {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Ns {
    /// Makes a namespace with `lo` up. Needs root: without it the test fails, it is never skipped.
    pub fn new(kind: &str) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cpt-{}-{number}-{kind}", std::process::id());
        ip(&format!("netns add {name}"));
        let ns = Self { name };
        ns.ip("link set lo up");
        ns
    }

    /// The file that names it.
    pub fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }

    /// `ip` inside it.
    pub fn ip(&self, words: &str) -> String {
        ip(&format!("-n {} {words}", self.name))
    }

    /// Any program inside it.
    pub fn exec(&self, words: &str) -> String {
        ip(&format!("netns exec {} {words}", self.name))
    }

    /// Runs `work` on a thread inside the namespace.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.spawn(work).join().expect("work inside the namespace panicked")
    }

    /// Starts `work` on a thread inside the namespace.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let file = File::open(self.path()).expect("the namespace exists");
        std::thread::spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("needs root");
            work()
        })
    }
}

impl Drop for Ns {
    fn drop(&mut self) {
        drop(copepod_sys::command("ip").args(["netns", "del", &self.name]).output());
    }
}

/// Makes a veth pair `left`-`right` with an address on each end (`a.b.c.d/len`).
pub fn connect(left: (&Ns, &str, &str), right: (&Ns, &str, &str)) {
    let (a, a_dev, a_addr) = left;
    let (b, b_dev, b_addr) = right;
    a.ip(&format!("link add {a_dev} type veth peer name {b_dev} netns {}", b.name));
    for (ns, dev, addr) in [(a, a_dev, a_addr), (b, b_dev, b_addr)] {
        ns.ip(&format!("addr add {addr} dev {dev}"));
        ns.ip(&format!("link set {dev} up"));
    }
}

/// Asks until `holds`, for at most five seconds.
#[expect(clippy::disallowed_methods, reason = "a blocking test waits for another process's view")]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..100 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not within 5 s: {what}");
}
