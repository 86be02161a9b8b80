//! Init's services: what it started, what of it runs, and what is due to be started again.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use copepod_sys::process::Exit;
use tokio::time::Instant;

use crate::TestkitError;
use crate::spec::ServiceSpec;

/// How long a service that ended stays down, so that one that cannot start does not take the whole processor.
const RESTART_DELAY: Duration = Duration::from_millis(500);

const SIGKILL: i32 = 9;

#[derive(Debug)]
struct Running {
    spec: ServiceSpec,
    pid: Option<i32>,
    due: Option<Instant>,
}

/// All services of this life.
#[derive(Debug, Default)]
pub(super) struct Services {
    table: Vec<Running>,
}

impl Services {
    /// Starts a service, after ending the one that has its name.
    pub(super) fn start(&mut self, spec: ServiceSpec) -> Result<(), TestkitError> {
        self.stop(&spec.name)?;
        let pid = spawn(&spec)?;
        self.table.push(Running { spec, pid: Some(pid), due: None });
        Ok(())
    }

    /// Ends a service for good; one that is not there has ended.
    pub(super) fn stop(&mut self, name: &str) -> Result<(), TestkitError> {
        if let Some(at) = self.table.iter().position(|s| s.spec.name == name)
            && let Some(pid) = self.table.swap_remove(at).pid
        {
            copepod_sys::process::kill(pid, SIGKILL)?;
        }
        Ok(())
    }

    /// The process id of a service that runs.
    pub(super) fn pid(&self, name: &str) -> Option<i32> {
        self.table.iter().find(|s| s.spec.name == name)?.pid
    }

    /// Notes that a process ended; most are no services but orphans, and then there is nothing to note.
    pub(super) fn ended(&mut self, exit: Exit, now: Instant) {
        if let Some(service) = self.table.iter_mut().find(|s| s.pid == Some(exit.pid)) {
            service.pid = None;
            service.due = service.spec.restart.then(|| now + RESTART_DELAY);
        }
    }

    /// When the next service is due to be started.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.table.iter().filter_map(|s| s.due).min()
    }

    /// Starts what is due; what fails to start is due again later.
    pub(super) fn start_due(&mut self, now: Instant) {
        for service in self.table.iter_mut().filter(|s| s.due.is_some_and(|due| due <= now)) {
            match spawn(&service.spec) {
                Ok(pid) => (service.pid, service.due) = (Some(pid), None),
                Err(error) => {
                    super::report(&error.chain());
                    service.due = Some(now + RESTART_DELAY);
                }
            }
        }
    }
}

fn spawn(spec: &ServiceSpec) -> Result<i32, TestkitError> {
    let log = open_log(&spec.log)?;
    let errors = log.try_clone().map_err(|e| TestkitError::file("open", &spec.log, e))?;
    let (program, args) =
        spec.argv.split_first().ok_or_else(|| TestkitError::Init(format!("{}: no program", spec.name)))?;
    let child = copepod_sys::command(program)
        .args(args)
        .envs(spec.env.iter().map(|(key, value)| (key, value)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .spawn()
        .map_err(|source| TestkitError::Start { program: program.clone(), source })?;
    Ok(i32::try_from(child.id()).expect("Linux process ids are below 2^22"))
}

fn open_log(path: &Path) -> Result<fs::File, TestkitError> {
    let dir = path.parent().unwrap_or(path);
    fs::create_dir_all(dir).map_err(|e| TestkitError::file("create", dir, e))?;
    OpenOptions::new().create(true).append(true).open(path).map_err(|e| TestkitError::file("open", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(name: &str, pid: i32, restart: bool) -> Running {
        let spec = ServiceSpec {
            name: name.to_string(),
            argv: vec!["true".to_string()],
            env: Vec::new(),
            log: "/dev/null".into(),
            restart,
        };
        Running { spec, pid: Some(pid), due: None }
    }

    #[test]
    fn only_services_that_ask_for_it_become_due_again() {
        let mut services = Services { table: vec![running("a", 10, true), running("b", 11, false)] };
        let now = Instant::now();
        for pid in [10, 11, 12] {
            services.ended(Exit { pid, code: 1 }, now);
        }
        assert_eq!((services.pid("a"), services.pid("b")), (None, None));
        assert_eq!(services.next_due(), Some(now + RESTART_DELAY));
        services.start_due(now);
        assert_eq!(services.pid("a"), None, "it is not due yet");
    }

    #[test]
    fn stopping_what_is_unknown_is_fine() {
        Services::default().stop("nobody").unwrap();
    }
}
