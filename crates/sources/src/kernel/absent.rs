//! The replacement of `attached` in builds without the feature `live`.

use std::convert::Infallible;

use super::{Ask, KernelError, Sighting, Standing, WatchOptions, WatchRequest};

/// A watch. This build cannot create one.
#[derive(Debug)]
pub struct Watch(Infallible);

impl Watch {
    /// Reports that this build cannot watch.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn start(_: &WatchOptions) -> Result<Self, KernelError> {
        Err(KernelError::LeftOut)
    }

    /// Reports that this build cannot watch.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn start_by(_: Box<dyn Ask>, _: &WatchOptions) -> Result<Self, KernelError> {
        Err(KernelError::LeftOut)
    }

    /// Cannot be called in this build.
    pub fn take(&mut self, _: impl FnMut(Sighting<'_>)) {
        match self.0 {}
    }

    /// Cannot be called in this build.
    pub fn standing(&self) -> Standing {
        match self.0 {}
    }

    /// Cannot be called in this build.
    pub fn finish(self, _: impl FnMut(Sighting<'_>)) -> Standing {
        match self.0 {}
    }

    /// Cannot be called in this build.
    pub fn missing(&self) -> &[String] {
        match self.0 {}
    }
}

impl WatchRequest {
    /// Reports that this build cannot watch.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn of(_: &WatchOptions) -> Result<Self, KernelError> {
        Err(KernelError::LeftOut)
    }
}
