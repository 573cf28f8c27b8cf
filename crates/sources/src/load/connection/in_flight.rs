//! A request in flight.

use core::time::Duration;

use lagtrace_core::observed::time::Timestamp;

use crate::load::mix::Start;

#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) due: Timestamp,
    /// Index of the request's URL in the plan.
    pub(super) part: u16,
    pub(super) sent: Timestamp,
    pub(super) first_byte: Option<Timestamp>,
    pub(super) last_read: Timestamp,
    pub(super) longest_gap: Duration,
    pub(super) received_bytes: u64,
    /// True if `send` was called for the request.
    pub(super) is_sent: bool,
    /// Number of the HTTP/2 stream; 0 in HTTP/1.1.
    pub(super) stream: u32,
}

impl InFlight {
    pub(super) fn start(&self) -> Start {
        Start {
            due: self.due,
            part: self.part,
        }
    }

    pub(super) fn unsent(since: Timestamp, Start { due, part }: Start) -> Self {
        Self {
            due,
            part,
            sent: since,
            first_byte: None,
            last_read: since,
            longest_gap: Duration::ZERO,
            received_bytes: 0,
            is_sent: true,
            stream: 0,
        }
    }

    pub(super) fn note_read(&mut self, now: Timestamp) {
        if self.first_byte.is_none() {
            self.first_byte = Some(now);
        } else {
            self.longest_gap = self.longest_gap.max(now.since(self.last_read));
        }
        self.last_read = now;
    }
}
