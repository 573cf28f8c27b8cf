//! The privileged half as one observation sees it.

use super::KernelError;
use super::request::{Answer, Ask, Reply, Request};

/// Programs that the privileged half holds for one observation. Dropping this value removes them.
pub(super) struct Seat {
    way: Box<dyn Ask>,
    /// The request that removes the programs.
    end: Request,
}

impl Seat {
    /// Takes over programs that have been started.
    pub(super) fn new(way: Box<dyn Ask>, end: Request) -> Self {
        Self { way, end }
    }

    /// Passes a request to the privileged half.
    pub(super) fn ask(&mut self, request: Request) -> Result<Reply, KernelError> {
        let answer: Answer = self.way.ask(request);
        answer.map(|(reply, _)| reply)
    }

    /// Passes a request that has no result.
    pub(super) fn tell(&mut self, request: Request) -> Result<(), KernelError> {
        match self.ask(request)? {
            Reply::Done => Ok(()),
            _ => Err(KernelError::OutOfTurn),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // If the privileged half has ended, the kernel has removed the programs.
        let _ = self.way.ask(self.end.clone());
    }
}
