//! The parts of a page for which there is room.

use crate::render::Length;

/// Maximum number of pieces of evidence on a screen.
const EVIDENCE: usize = 3;

/// The parts of a finding on a page, and the number of remarks after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Maximum number of pieces of evidence.
    pub(super) evidence: usize,
    /// Maximum number of changes.
    pub(super) fixes: usize,
    /// True with the strength of the proof and other candidates.
    pub(super) has_doubt: bool,
    /// True with the expected latency.
    pub(super) has_expectation: bool,
    /// True with the expected throughput.
    pub(super) has_throughput: bool,
    /// True with the owners of the time in a line, or with the runs that are compared.
    pub(super) has_context: bool,
    /// True with the command that tells more on the cause.
    pub(super) has_pointer: bool,
    /// Number of remarks.
    pub(super) remarks: usize,
}

impl Room {
    /// Returns the room for everything that a page of this length can have.
    pub(super) fn of(length: Length, remarks: usize) -> Self {
        let is_brief = length == Length::Brief;
        Self {
            evidence: if is_brief { 1 } else { EVIDENCE },
            fixes: if is_brief { 1 } else { usize::MAX },
            has_doubt: !is_brief,
            has_expectation: true,
            has_throughput: true,
            has_context: true,
            has_pointer: true,
            remarks,
        }
    }

    /// Returns the room with one part less; `None` if there is only what a page must have. The
    /// first `kept` remarks are other findings and what could not be judged.
    pub(super) fn less(self, kept: usize) -> Option<Self> {
        let mut less = self;
        match self {
            _ if self.remarks > kept => less.remarks -= 1,
            _ if self.has_throughput => less.has_throughput = false,
            _ if self.evidence > 2 => less.evidence -= 1,
            _ if self.fixes > 3 => less.fixes = 3,
            _ if self.evidence > 1 => less.evidence -= 1,
            _ if self.has_doubt => less.has_doubt = false,
            _ if self.fixes > 1 => less.fixes -= 1,
            _ if self.has_context => less.has_context = false,
            _ if self.remarks > 0 => less.remarks -= 1,
            _ if self.evidence > 0 => less.evidence -= 1,
            _ if self.has_expectation => less.has_expectation = false,
            _ if self.has_pointer => less.has_pointer = false,
            _ => return None,
        }
        Some(less)
    }
}
