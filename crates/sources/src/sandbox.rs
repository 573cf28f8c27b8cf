//! The confinement of the worker: the process that handles bytes from the network and from files.
//!
//! A process confines itself before it reads the first of these bytes, while it has a single
//! thread. The restrictions hold until it ends, and apply to all threads that it starts. Each one
//! stands on its own, so that those that a kernel lacks are left out and named.

mod arguments;
mod attempt;
mod bystander;
mod calls;
mod identity;
mod paths;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::PathBuf;

pub use attempt::{Attempt, Tried, attempt_all, status};
pub use bystander::Bystander;

/// The rights that the worker keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// True if the worker uses the network. Otherwise it can open no socket.
    pub network: bool,
    /// TCP ports that the worker may connect to; `None`: any.
    pub ports: Option<Vec<u16>>,
    /// Files and folders that the worker may read, in addition to those that every worker needs.
    pub reads: Vec<PathBuf>,
    /// True if the keeper opens packet sockets for the worker.
    pub packets: bool,
    /// True if the keeper opens raw IP sockets for the worker.
    pub raw: bool,
    /// True if the worker opens raw sockets itself, because the keeper cannot do it for it.
    pub keeps_net_raw: bool,
}

/// A restriction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Another user than root: the one behind `sudo`, or `nobody`.
    User,
    /// No capabilities.
    Capabilities,
    /// No program that the worker starts can gain privileges (`no_new_privs`).
    NoNewPrivileges,
    /// Landlock: only named files.
    Files,
    /// Landlock: no file is truncated.
    Truncation,
    /// Landlock: connections to the named TCP ports only.
    Ports,
    /// Landlock: no signals to other processes, and no abstract Unix sockets of theirs.
    Scopes,
    /// seccomp: only the system calls that lagtrace uses.
    SystemCalls,
    /// The keeper opens raw sockets (`seccomp_unotify(2)`).
    RawSockets,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "an unprivileged user",
            Self::Capabilities => "no capabilities",
            Self::NoNewPrivileges => "no new privileges",
            Self::Files => "Landlock for files",
            Self::Truncation => "Landlock for truncation",
            Self::Ports => "Landlock for TCP ports",
            Self::Scopes => "Landlock for signals and abstract Unix sockets",
            Self::SystemCalls => "a seccomp filter",
            Self::RawSockets => "raw sockets by the keeper: it keeps CAP_NET_RAW",
        })
    }
}

/// A restriction that could not be set, and the reason.
#[derive(Debug)]
pub struct Lacking {
    /// The restriction.
    pub step: Step,
    /// The reason.
    pub reason: io::Error,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.step, self.reason)
    }
}

/// Forbids this process, and all that it starts, to gain privileges.
///
/// # Errors
/// Returns an error on kernels older than 3.5.
pub fn forbid_new_privileges() -> Result<(), Lacking> {
    rustix::thread::set_no_new_privs(true).map_err(|error| Lacking {
        step: Step::NoNewPrivileges,
        reason: error.into(),
    })
}

/// Confines this process, and returns the restrictions that could not be set. The process must have
/// a single thread, as `keeper::start` ensures: others would keep their rights.
pub fn confine(rules: &Rules) -> Vec<Lacking> {
    // Read once, from memory that the confined process may not ask for.
    rustix::param::page_size();
    let mut lacking = Vec::new();
    // Landlock opens the paths of its rules, which the new user may not be able to.
    let paths = paths::prepare(rules);
    let user = identity::become_unprivileged(rules.keeps_net_raw);
    let capabilities = identity::drop_capabilities(rules.keeps_net_raw);
    lacking.extend(unless_set(Step::User, user));
    lacking.extend(unless_set(Step::Capabilities, capabilities));
    match paths {
        Ok(paths) => lacking.extend(paths::restrict(paths)),
        Err(reason) => lacking.extend(unless_set(Step::Files, Err(reason))),
    }
    lacking.extend(unless_set(Step::SystemCalls, calls::restrict(rules)));
    lacking
}

fn unless_set(step: Step, outcome: io::Result<()>) -> Option<Lacking> {
    outcome.err().map(|reason| Lacking { step, reason })
}
