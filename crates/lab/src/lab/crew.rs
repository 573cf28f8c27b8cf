//! The processes that run in a lab: starting them with a log each, watching and ending them.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitOptions, wait};

use super::run::{Member, Run};
use crate::error::Error;
use crate::machine::namespace::before_exec;
use crate::machine::process::Process;
use crate::scenario::service::NGINX;
use crate::server::nginx;

/// Maximum time for a server to end by itself.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The processes of a lab, in the order in which they were started.
#[derive(Default)]
pub(crate) struct Crew {
    /// The members, each with its role and the signal that ends it.
    members: Vec<(String, Child, Signal)>,
}

impl Crew {
    /// Starts a process with its own log and adds it to the run's record.
    pub(crate) fn start(
        &mut self,
        run: &mut Run,
        role: &str,
        mut command: Command,
        at_death: Signal,
    ) -> Result<(), Error> {
        let log = log_file(run, role);
        // The file is opened for appending, because the processes that control the server write
        // into it as well.
        let output = OpenOptions::new().create(true).append(true).open(&log);
        let output = output.map_err(Error::file("create", &log))?;
        let errors = output.try_clone().map_err(Error::file("share", &log))?;
        command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .current_dir("/");
        before_exec::die_with_parent(&mut command, at_death);
        let child = command.spawn().map_err(|source| Error::Start {
            program: role.to_owned(),
            source,
        })?;
        let process = i32::try_from(child.id()).ok().and_then(Process::with_pid);
        self.members.push((role.to_owned(), child, at_death));
        run.processes.extend(process.map(|process| Member {
            role: role.to_owned(),
            process,
        }));
        run.save()
    }

    /// Returns an error with the end of the member's log if the member has ended.
    pub(crate) fn check_alive(&mut self, run: &Run, role: &str) -> Result<(), Error> {
        let Some((_, child, _)) = self.members.iter_mut().find(|(name, ..)| name == role) else {
            return Ok(());
        };
        match child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(failed(
                role,
                &format!("{status}: {}", last_words(run, role)),
            )),
            Err(error) => Err(failed(role, &error.to_string())),
        }
    }

    /// Ends every member, and every process that members started and left running.
    pub(crate) fn dismiss(&mut self) {
        for (_, child, end) in &self.members {
            end_child(child, *end);
        }
        let begun = Instant::now();
        for (_, child, _) in &mut self.members {
            while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < END_LIMIT {
                sleep(Duration::from_millis(2));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        self.members.clear();
        // Orphans become children of the keeper, which is their subreaper. Those that have ended
        // are reaped as well.
        for _ in 0..1000 {
            for orphan in Process::current().children() {
                orphan.signal(Signal::KILL);
            }
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => sleep(Duration::from_millis(2)),
                Err(_) => return,
            }
        }
    }
}

/// Asks a child to end, and continues it, because a stopped process could not end.
fn end_child(child: &Child, end: Signal) {
    if let Some(process) = i32::try_from(child.id()).ok().and_then(Process::with_pid) {
        process.signal(end);
        process.signal(Signal::CONT);
    }
}

/// Returns the log of a member.
pub(crate) fn log_file(run: &Run, role: &str) -> PathBuf {
    run.folder().join(format!("{role}.log"))
}

/// Returns the end of a member's log; for nginx, also the end of its error log.
pub(crate) fn last_words(run: &Run, role: &str) -> String {
    let own = log_file(run, role);
    let read = |file: &Path| {
        fs::read(file)
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .unwrap_or_default()
    };
    let mut text = read(&own);
    if role == NGINX {
        text.push_str(&read(&nginx::error_log(&run.folder())));
    }
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}

/// Returns the error of a member that failed.
pub(crate) fn failed(role: &str, message: &str) -> Error {
    Error::Command {
        command: role.to_owned(),
        message: message.to_owned(),
    }
}
