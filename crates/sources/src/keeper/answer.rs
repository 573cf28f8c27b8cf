//! The answers of the keeper.

use std::os::fd::OwnedFd;

use crate::privilege::HostError;
use crate::privilege::message::Reply;

/// An answer with the descriptors that go with it.
pub(super) type Answer = Result<(Reply, Vec<OwnedFd>), HostError>;

/// Returns the answer to an operation that was performed.
pub(super) fn done(descriptor: Option<OwnedFd>) -> Answer {
    Ok((Reply::Done, descriptor.into_iter().collect()))
}

pub(super) fn number(number: u64) -> Answer {
    Ok((Reply::Number(number), Vec::new()))
}

pub(super) fn gone(what: &str) -> HostError {
    HostError::Gone {
        what: what.to_owned(),
    }
}
