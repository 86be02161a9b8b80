//! Nodes in namespaces, for real: needs root, and fails without.
//!
//! The programs used inside are busybox's, so that the test needs nothing else of the machine.
#![allow(missing_docs, clippy::print_stdout, reason = "a test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use copepod_testkit::{Node, Service, Side, dispatch};
use libtest_mimic::{Arguments, Failed, Trial};

/// Set for the copy of this program that makes a node and waits to be killed.
const VICTIM: &str = "COPEPOD_TESTKIT_VICTIM";

fn main() {
    dispatch();
    if std::env::var_os(VICTIM).is_some() {
        victim();
    }
    let test = |name: &str, run: fn() -> Result<(), Failed>| Trial::test(name, run);
    let trials = vec![
        test("the_node_has_a_world_of_its_own", own_world),
        test("the_outside_client_reaches_the_node", outside_client),
        test("commands_pass_on_codes_and_signals", commands),
        test("services_restart_and_a_reboot_keeps_only_files", restart_and_reboot),
        test("a_stopped_node_leaves_no_trace", no_trace),
        test("a_killed_caller_leaves_no_trace", killed_caller),
        test("the_next_node_sweeps_up_after_a_killed_keeper", killed_keeper),
        test("a_node_that_cannot_be_made_says_why", failure),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn sh(node: &Node, script: &str) -> Result<String, Failed> {
    let output = node.exec(&["/bin/sh", "-ec", script])?;
    if !output.status.success() {
        return Err(format!("{script}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

fn check(condition: bool, what: impl Into<String>) -> Result<(), Failed> {
    if condition { Ok(()) } else { Err(what.into().into()) }
}

fn equal(actual: &str, expected: &str) -> Result<(), Failed> {
    check(actual == expected, format!("got {actual:?}, expected {expected:?}"))
}

/// Waits up to ten seconds for something that no event announces.
fn eventually(what: &str, condition: impl Fn() -> bool) -> Result<(), Failed> {
    for _ in 0..100 {
        if condition() {
            return Ok(());
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    Err(format!("not within ten seconds: {what}").into())
}

fn busybox_httpd(node: &mut Node) -> Result<(), Failed> {
    sh(node, "mkdir -p /var/lib/www; echo hello > /var/lib/www/index.html")?;
    let httpd = Service::new("httpd", "/bin/busybox").args(["httpd", "-f", "-p", "80", "-h", "/var/lib/www"]);
    node.start_service(httpd.restart(true))?;
    Ok(())
}

fn get(address: std::net::SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn own_world() -> Result<(), Failed> {
    let node = Node::builder().name("alpha").start()?;
    equal(&sh(&node, "hostname; cat /etc/hostname")?, "alpha\nalpha")?;
    equal(&sh(&node, "ls /sys/class/net")?, "eth0\nlo")?;
    equal(&sh(&node, "ls /run; ls /var/lib; ls -d /etc/kubernetes/* 2>/dev/null || true")?, "netns")?;
    equal(&sh(&node, "cat /proc/1/comm | wc -l; echo $$ | awk '{print ($1 < 1000)}'")?, "1\n1")?;
    // Writes to where a node writes stay inside.
    sh(
        &node,
        "for d in /etc /opt /usr/local /run /var/lib /var/log /etc/cni /opt/cni; do echo x > $d/copepod-trace; done",
    )?;
    for dir in ["/etc", "/opt", "/usr/local", "/run", "/var/lib", "/var/log", "/etc/cni", "/opt/cni"] {
        check(
            !Path::new(dir).join("copepod-trace").exists(),
            format!("a file appeared in the host's {dir}"),
        )?;
    }
    equal(&std::fs::read_to_string(node.host_path("/etc/copepod-trace"))?, "x\n")?;
    // Settings of the whole machine are copies.
    let before = std::fs::read_to_string("/proc/sys/kernel/panic")?;
    equal(&sh(&node, "echo 4711 > /proc/sys/kernel/panic; cat /proc/sys/kernel/panic")?, "4711")?;
    equal(&std::fs::read_to_string("/proc/sys/kernel/panic")?, &before)?;
    // Every hierarchy begins at the node's own group, and groups can be made in it.
    let groups = sh(&node, "cut -d: -f3 /proc/self/cgroup | sort -u")?;
    equal(&groups, "/init")?;
    sh(
        &node,
        "for p in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs); do mkdir ${p%/*}/kubepods; done",
    )?;
    sh(
        &node,
        "for m in $(find /sys/fs/cgroup -maxdepth 3 -name kubepods | grep -v cpuset); do sleep 60 >/dev/null 2>&1 & echo $! > $m/cgroup.procs; done",
    )?;
    node.stop()?;
    Ok(())
}

fn outside_client() -> Result<(), Failed> {
    let mut node = Node::builder().start()?;
    busybox_httpd(&mut node)?;
    let url = format!("http://{}/", node.address());
    eventually("the client gets the page", || {
        let output = node.lan_exec(&["/bin/busybox", "wget", "-q", "-O", "-", &url]);
        output.is_ok_and(|o| o.stdout == b"hello\n")
    })?;
    let local = node.forward(80)?;
    check(get(local)?.ends_with("hello\n"), "the forwarded port gives the page")?;
    let lan = node.lan_exec(&["/bin/busybox", "ip", "-4", "addr", "show", "lan0"])?;
    check(String::from_utf8_lossy(&lan.stdout).contains("192.168.77.1/24"), "the client's address")?;
    let links = node.lan_exec(&["/bin/busybox", "ip", "link"])?;
    check(!String::from_utf8_lossy(&links.stdout).contains("eth0:"), "the client is not on the node")
}

fn commands() -> Result<(), Failed> {
    let node = Node::builder().start()?;
    equal(&format!("{:?}", node.exec(&["/bin/sh", "-c", "exit 42"])?.status.code()), "Some(42)")?;
    equal(&format!("{:?}", node.exec(&["/no/such/program"])?.status.code()), "Some(127)")?;
    let script = "trap 'echo got it; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut command = node.command(Side::Node, "/bin/sh");
    let mut child = command.args(["-c", script]).stdout(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
    let mut line = String::new();
    output.read_line(&mut line)?;
    copepod_sys::process::kill(i32::try_from(child.id())?, 15)?;
    output.read_to_string(&mut line)?;
    equal(&line, "ready\ngot it\n")?;
    equal(&format!("{:?}", child.wait()?.code()), "Some(3)")?;
    // Killing the command kills the program.
    let mut child = node.command(Side::Node, "/bin/sleep").arg("4711").spawn()?;
    let sleeping = || sh(&node, "ps ax | grep -c '[s]leep 4711' || true").is_ok_and(|n| n == "1");
    eventually("the program runs", sleeping)?;
    child.kill()?;
    child.wait()?;
    eventually("the program is gone", || !sleeping())
}

fn restart_and_reboot() -> Result<(), Failed> {
    let mut node = Node::builder().start()?;
    busybox_httpd(&mut node)?;
    let local = node.forward(80)?;
    eventually("the page", || get(local).is_ok_and(|text| text.ends_with("hello\n")))?;
    let first = node.service_pid("httpd")?;
    sh(&node, &format!("kill -9 {}", first.ok_or("no process")?))?;
    eventually("the page after a kill", || get(local).is_ok_and(|text| text.ends_with("hello\n")))?;
    check(node.service_pid("httpd")? != first, "another process")?;

    sh(
        &node,
        "echo 1 > /run/volatile; echo 1 > /var/lib/kept; echo 1 > /etc/kept; for p in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs); do mkdir ${p%/*}/kubepods; done; sleep 1000 >/dev/null 2>&1 &",
    )?;
    let old = node.init_pid();
    node.reboot()?;
    check(node.init_pid() != old && !Path::new(&format!("/proc/{old}")).exists(), "the old init is gone")?;
    equal(
        &sh(
            &node,
            "cat /var/lib/kept /etc/kept; ls /run; ls -d /sys/fs/cgroup/*/kubepods 2>/dev/null || true",
        )?,
        "1\n1\nnetns",
    )?;
    equal(&sh(&node, "ps ax | grep -c '[s]leep 1000' || true")?, "0")?;
    eventually("the page after a reboot", || get(local).is_ok_and(|text| text.ends_with("hello\n")))
}

/// What a node could leave behind on the host.
fn traces(marker: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for dir in [
        "/var/tmp",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/cpu",
    ] {
        let Ok(entries) = std::fs::read_dir(dir) else { continue };
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        found.extend(paths.filter(|path| path.to_string_lossy().contains(marker)));
    }
    found
}

fn host_links() -> std::io::Result<Vec<String>> {
    let mut names: Vec<_> = std::fs::read_dir("/sys/class/net")?
        .map(|e| e.map(|e| e.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, _>>()?;
    names.sort();
    Ok(names)
}

fn no_trace() -> Result<(), Failed> {
    let links = host_links()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let node = Node::builder().start()?;
    let marker = std::fs::read_to_string(format!("/proc/{}/cgroup", node.init_pid()))?;
    let marker = marker.lines().find_map(|l| l.split("/copepod-").nth(1)).ok_or("no cgroup")?;
    let marker = format!("copepod-{}", marker.trim_end_matches("/init"));
    check(!traces(&marker).is_empty(), "the node has a root and a cgroup")?;
    sh(
        &node,
        "mkdir -p /var/lib/deep/er; mount -t tmpfs x /var/lib/deep/er; echo 1 > /var/lib/deep/er/file",
    )?;
    sh(
        &node,
        "mkdir -p $(dirname $(find /sys/fs/cgroup -name cgroup.procs | head -1))/a/b; sleep 1000 >/dev/null 2>&1 &",
    )?;
    let init = node.init_pid();
    node.stop()?;
    check(traces(&marker).is_empty(), format!("left behind: {:?}", traces(&marker)))?;
    check(!Path::new(&format!("/proc/{init}")).exists(), "init is gone")?;
    check(host_links()? == links, "the host's links are as before")?;
    check(std::fs::read_to_string("/proc/self/mountinfo")? == mounts, "the host's mounts are as before")
}

fn victim() -> ! {
    let node = Node::builder().start().expect("the test runs as root");
    println!("{}", node.init_pid());
    loop {
        std::thread::park();
    }
}

fn killed_caller() -> Result<(), Failed> {
    let mut child =
        copepod_sys::command(std::env::current_exe()?).env(VICTIM, "1").stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let marker = format!("copepod-{}-", child.id());
    let init = format!("/proc/{}", line.trim());
    check(Path::new(&init).exists() && !traces(&marker).is_empty(), "the node runs")?;
    child.kill()?;
    child.wait()?;
    eventually("the node is gone", || !Path::new(&init).exists() && traces(&marker).is_empty())
}

fn killed_keeper() -> Result<(), Failed> {
    let base = std::env::temp_dir().join(format!("copepod-sweep-{}", std::process::id()));
    let roots = || std::fs::read_dir(&base).map_or(0, Iterator::count);
    let first = Node::builder().base(&base).start()?;
    let init = format!("/proc/{}", first.init_pid());
    // The keeper is the parent of boot, which is the parent of init.
    let parent = |stat: String| -> Option<String> {
        stat.rsplit(')').next()?.split_whitespace().nth(1).map(|pid| format!("/proc/{pid}/stat"))
    };
    let boot = parent(std::fs::read_to_string(format!("{init}/stat"))?).ok_or("no parent")?;
    let keeper = parent(std::fs::read_to_string(boot)?).ok_or("no parent")?;
    let keeper = keeper.split('/').nth(2).ok_or("no process id")?.parse()?;
    copepod_sys::process::kill(keeper, 9)?;
    eventually("init died with its keeper", || !Path::new(&init).exists())?;
    drop(first);
    check(roots() == 1, "the killed keeper left its root")?;
    let second = Node::builder().base(&base).start()?;
    check(roots() == 1, "only the new root is there")?;
    second.stop()?;
    check(roots() == 0, "nothing is there")?;
    std::fs::remove_dir(&base)?;
    Ok(())
}

fn failure() -> Result<(), Failed> {
    let error = Node::builder().base("/proc/nowhere").start().err().ok_or("a node in /proc")?;
    check(error.to_string().contains("/proc/nowhere"), error.to_string())?;
    let error = Node::builder().name("x".repeat(100)).start().err().ok_or("a host name of 100 letters")?;
    check(error.to_string().contains("host name"), error.to_string())
}
