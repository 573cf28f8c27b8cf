//! A gap between two segments with its attribution.

use core::time::Duration;

use super::stop::Stop;
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Hold, Recovery};

/// A gap between two segments, and its attribution.
#[derive(Debug, Default)]
pub(super) struct Gap {
    /// Kind and owner of the wait; `None` if the second segment ended no wait.
    pub(super) wait: Option<(WaitKind, Owner)>,
    pub(super) hold: Option<Hold>,
    pub(super) recovery: Option<Recovery>,
    pub(super) stop: Option<Stop>,
    /// The time for which data that had arrived waited for a segment that it had overtaken.
    pub(super) overtaken: Option<Duration>,
}

impl Gap {
    pub(super) fn named(kind: WaitKind, owner: Owner) -> Self {
        Self {
            wait: Some((kind, owner)),
            ..Self::default()
        }
    }
}
