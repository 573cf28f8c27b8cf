//! In the place of `calls` where the feature `live` is left out.

use std::convert::Infallible;

use lagtrace_core::observed::syscall::{CallTally, SocketCall};

use super::{CallOptions, KernelError};

/// Cannot be had in this build.
#[derive(Debug)]
pub struct Calls(Infallible);

impl Calls {
    /// Says that this build cannot trace.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: CallOptions) -> Result<Self, KernelError> {
        Err(KernelError::LeftOut)
    }

    /// As of a build that can.
    pub fn take(&mut self, _: impl FnMut(SocketCall)) {
        match self.0 {}
    }

    /// As of a build that can.
    pub fn finish(self, _: impl FnMut(SocketCall)) -> CallTally {
        match self.0 {}
    }
}
