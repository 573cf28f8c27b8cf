//! The kernel's timers, which cause latencies of known length.

use lagtrace_core::observed::event::EventBody;
use lagtrace_sources::timer;

use super::Investigation;
use crate::failure::Result;
use crate::words;

impl Investigation<'_> {
    /// Reads the timers that apply to connections from this host to the subject.
    pub(super) fn timers(&mut self) -> Result<()> {
        let timers = timer::read(self.subject().route.as_ref());
        let tick = match timers.hz {
            Some(hz) => format!("HZ {hz}: "),
            None => String::new(),
        };
        let text = format!(
            "{tick}this host delays ACKs by {} to {}, retransmits after {} at the earliest",
            words::time(timers.delack_min),
            words::time(timers.delack_max),
            words::time(timers.rto_min),
        );
        self.console.outcome("timers", &text);
        self.feed.observe_now(EventBody::Timers(timers));
        Ok(())
    }
}
