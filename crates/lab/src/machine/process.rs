//! Processes with an unambiguous identity: process id and start time together, so that another
//! process that gets the same id later is not confused with it.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The process id.
    pub pid: i32,
    /// The start time, in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub started: u64,
}

impl Process {
    /// Returns the process that has this id now; `None` if there is no such process or it has
    /// ended.
    pub(crate) fn with_pid(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let started = start_of_living(&stat)?;
        Some(Self { pid, started })
    }

    /// Returns the calling process.
    pub(crate) fn current() -> Self {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        // Without /proc the lab cannot work. A start time of 0 then matches no process.
        Self::with_pid(pid).unwrap_or(Self { pid, started: 0 })
    }

    /// Returns true if the process is still running; a zombie is not.
    pub fn is_alive(self) -> bool {
        Self::with_pid(self.pid) == Some(self)
    }

    /// Sends the process a signal; has no effect if the process has ended, even if its id is in use
    /// again.
    pub(crate) fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
            return;
        };
        // The handle stays bound to one process. Check that this is the intended one.
        if self.is_alive() {
            let _ = pidfd_send_signal(handle, signal);
        }
    }

    /// Waits at most `longest` until the process has ended; returns true if it has.
    pub(crate) fn wait_for_end(self, longest: Duration) -> bool {
        let begun = Instant::now();
        while self.is_alive() {
            if begun.elapsed() >= longest {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Returns the process's children, if the kernel lists them (`/proc/PID/task/PID/children`).
    pub(crate) fn children(self) -> Vec<Self> {
        let list = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid))
            .unwrap_or_default();
        list.split_whitespace()
            .filter_map(|pid| Self::with_pid(pid.parse().ok()?))
            .collect()
    }
}

/// Returns field 22 of a stat line, unless field 3 says that the process has ended. The name in
/// field 2 may contain any character, including parentheses, so fields are counted after the last
/// closing parenthesis.
fn start_of_living(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_an_earlier_one_of_its_id_does_not() {
        let this = Process::current();
        assert!(this.is_alive());
        assert!(
            !Process {
                started: this.started + 1,
                ..this
            }
            .is_alive()
        );
    }

    #[test]
    fn a_process_that_got_a_recorded_id_later_is_left_alone() {
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep starts");
        let pid = i32::try_from(other.id()).expect("a pid");
        let recorded = Process::with_pid(pid).expect("it runs");
        Process {
            started: recorded.started + 1,
            ..recorded
        }
        .signal(Signal::KILL);
        assert!(recorded.is_alive());
        recorded.signal(Signal::KILL);
        assert!(recorded.wait_for_end(Duration::from_secs(5)));
        let _ = other.wait();
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_mislead() {
        let rest = "1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        assert_eq!(
            start_of_living(&format!("9 (a) b (c)) S {rest}")),
            Some(4711)
        );
        assert_eq!(start_of_living(&format!("9 (gone) Z {rest}")), None);
        assert_eq!(start_of_living("nonsense"), None);
        assert_eq!(start_of_living("9 (cut) S 1 2"), None);
    }
}
