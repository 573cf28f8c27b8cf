//! The replacement of `calls` in builds without the feature `live`.

use std::convert::Infallible;

use lagtrace_core::observed::syscall::{CallTally, SocketCall};

use super::{Ask, CallOptions, CallsRequest, KernelError};

/// A trace of calls. This build cannot create one.
#[derive(Debug)]
pub struct Calls(Infallible);

impl Calls {
    /// Reports that this build cannot trace.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn start(_: CallOptions) -> Result<Self, KernelError> {
        Err(KernelError::LeftOut)
    }

    /// Reports that this build cannot trace.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn start_by(_: Box<dyn Ask>, _: CallOptions) -> Result<Self, KernelError> {
        Err(KernelError::LeftOut)
    }

    /// Cannot be called in this build.
    pub fn take(&mut self, _: impl FnMut(SocketCall)) {
        match self.0 {}
    }

    /// Cannot be called in this build.
    pub fn finish(self, _: impl FnMut(SocketCall)) -> CallTally {
        match self.0 {}
    }
}

impl CallsRequest {
    /// Returns a request for everything, which this build refuses.
    pub fn of(_: &CallOptions) -> Self {
        Self::default()
    }
}
