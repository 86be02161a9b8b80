//! The sandbox process: holds a pod's namespaces until it is told to go, and reaps what the pod's containers leave.
//!
//! As the first process of a PID namespace it gets only the signals it asks for, and every orphan becomes its child.
//! It blocks in one read and so uses no processor time.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, WaitOptions};

fn main() -> ExitCode {
    match pause() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(u8::try_from(error.raw_os_error().unwrap_or(1)).unwrap_or(1)),
    }
}

fn pause() -> std::io::Result<()> {
    let (mut wake, waker) = UnixStream::pair()?;
    let told_to_go = Arc::new(AtomicBool::new(false));
    for signal in [Signal::INT, Signal::TERM] {
        // Flags are set before the wake-up of the same signal, because handlers run in the order of their registration.
        signal_hook::flag::register(signal.as_raw(), Arc::clone(&told_to_go))?;
        signal_hook::low_level::pipe::register(signal.as_raw(), waker.try_clone()?)?;
    }
    signal_hook::low_level::pipe::register(Signal::CHILD.as_raw(), waker)?;
    let mut signals = [0; 16];
    while !told_to_go.load(Ordering::SeqCst) {
        reap();
        match wake.read(&mut signals) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Collects every child that has ended.
fn reap() {
    while matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
}
