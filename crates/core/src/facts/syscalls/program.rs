//! Programs that made calls.

use core::fmt;

use crate::observed::syscall::Caller;

/// A process that made a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallingProgram {
    pub(crate) name: String,
    pub(crate) pid: u32,
}

impl fmt::Display for CallingProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.name, self.pid)
    }
}

impl From<&Caller> for CallingProgram {
    fn from(caller: &Caller) -> Self {
        Self {
            name: caller.name.clone(),
            pid: caller.pid,
        }
    }
}
