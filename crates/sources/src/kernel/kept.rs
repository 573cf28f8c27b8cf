//! The privileged half in the keeper of this process.

use std::io;

use super::request::{Answer, Ask, Reply, Request};
use super::{KernelError, Programs};
use crate::privilege::client::keeper;
use crate::privilege::message;

/// The way to the privileged half that this process's keeper holds.
struct Kept;

/// Returns the way to the privileged half: in the keeper if there is one, otherwise in this process.
pub(super) fn way() -> Box<dyn Ask> {
    match keeper() {
        Some(_) => Box::new(Kept),
        None => Box::new(Programs::default()),
    }
}

impl Ask for Kept {
    fn ask(&mut self, request: Request) -> Answer {
        let bytes = postcard::to_stdvec(&request).map_err(unanswered)?;
        let keeper = keeper().ok_or_else(|| unanswered("it has ended"))?;
        let answer = keeper.ask(&message::Request::Kernel(bytes));
        match answer.map_err(|error| KernelError::Unanswered(error.into()))? {
            (message::Reply::Bytes(bytes), descriptors) => {
                let reply: Result<Reply, KernelError> =
                    postcard::from_bytes(&bytes).map_err(unanswered)?;
                Ok((reply?, descriptors))
            }
            _ => Err(unanswered("an unexpected answer")),
        }
    }
}

fn unanswered(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> KernelError {
    KernelError::Unanswered(io::Error::other(reason))
}
