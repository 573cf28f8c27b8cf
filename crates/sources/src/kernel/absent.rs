//! The stand-in for `attached` in builds without the feature `live`.

use std::convert::Infallible;

use super::{KernelError, Sighting, Standing, WatchOptions};

/// A watch, which cannot be created in this build.
#[derive(Debug)]
pub struct Watch(Infallible);

impl Watch {
    /// Reports that this build cannot watch.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: &WatchOptions) -> Result<Self, KernelError> {
        Err(KernelError::LeftOut)
    }

    /// Takes in observations, in a build that can watch.
    pub fn take(&mut self, _: impl FnMut(Sighting<'_>)) {
        match self.0 {}
    }

    /// Returns the state so far, in a build that can watch.
    pub fn standing(&self) -> Standing {
        match self.0 {}
    }

    /// Ends the watch, in a build that can watch.
    pub fn finish(self, _: impl FnMut(Sighting<'_>)) -> Standing {
        match self.0 {}
    }

    /// Returns the missing tracepoints, in a build that can watch.
    pub fn missing(&self) -> &[String] {
        match self.0 {}
    }
}
