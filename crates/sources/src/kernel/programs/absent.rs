//! The replacement of `programs` in builds without the feature `live`.

use super::{Answer, Ask, KernelError, Request};

/// The privileged half. This build has none.
#[derive(Debug, Default)]
pub struct Programs(());

impl Programs {
    /// Reports that this build cannot watch.
    ///
    /// # Errors
    /// Always returns an error.
    pub fn serve(&mut self, _: Request) -> Answer {
        Err(KernelError::LeftOut)
    }

    /// Does nothing.
    pub fn forget(&mut self, _: u32) {}
}

impl Ask for Programs {
    fn ask(&mut self, request: Request) -> Answer {
        self.serve(request)
    }
}
