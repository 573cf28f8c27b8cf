//! The confinement of the worker: the process that handles bytes from the network and from files.
//!
//! A process confines itself before it reads the first of these bytes, while it has a single
//! thread. The restrictions hold until it ends, and apply to all threads that it starts. Each one
//! stands on its own, so that those that a kernel lacks are left out and named.

mod attempt;
mod calls;
mod identity;
mod paths;

use std::fmt;
use std::io;
use std::path::PathBuf;

pub use attempt::{Attempt, attempt_all, status};

/// The rights that the worker keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// True if the worker uses the network. Otherwise it can open no socket.
    pub network: bool,
    /// TCP ports that the worker may connect to; `None`: any.
    pub ports: Option<Vec<u16>>,
    /// Files and folders that the worker may read, in addition to those that every worker needs.
    pub reads: Vec<PathBuf>,
    /// True if the worker stays the user who started it, because a Unix socket may be closed to
    /// others.
    pub keeps_user: bool,
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
    /// Landlock: connections to the named TCP ports only.
    Ports,
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
            Self::Ports => "Landlock for TCP ports",
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
    let mut set = |step: Step, outcome: io::Result<()>| {
        lacking.extend(outcome.err().map(|reason| Lacking { step, reason }));
    };
    // Landlock opens the paths of its rules, which the new user may not be able to.
    let paths = paths::prepare(rules);
    if !rules.keeps_user {
        let changed = identity::become_unprivileged(rules.keeps_net_raw);
        set(Step::User, changed);
    }
    set(
        Step::Capabilities,
        identity::drop_capabilities(rules.keeps_net_raw),
    );
    match paths {
        Ok(paths) => {
            let (files, ports) = paths::restrict(paths);
            set(Step::Files, files);
            set(Step::Ports, ports);
        }
        Err(reason) => set(Step::Files, Err(reason)),
    }
    set(Step::SystemCalls, calls::restrict(rules));
    lacking
}
