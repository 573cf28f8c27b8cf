//! In the place of `attached` where the feature `live` is left out.

use std::convert::Infallible;

use super::{KernelError, Sighting, Standing, WatchOptions};

/// Cannot be had in this build.
#[derive(Debug)]
pub struct Watch(Infallible);

impl Watch {
    /// Says that this build cannot watch.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: &WatchOptions) -> Result<Self, KernelError> {
        Err(KernelError::LeftOut)
    }

    /// As of a build that can.
    pub fn take(&mut self, _: impl FnMut(Sighting<'_>)) {
        match self.0 {}
    }

    /// As of a build that can.
    pub fn standing(&self) -> Standing {
        match self.0 {}
    }

    /// As of a build that can.
    pub fn finish(self, _: impl FnMut(Sighting<'_>)) -> Standing {
        match self.0 {}
    }

    /// As of a build that can.
    pub fn missing(&self) -> &[String] {
        match self.0 {}
    }
}
