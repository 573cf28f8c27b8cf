//! The time up to which a worker has heard all of its sockets. A worker that was stopped, or waited
//! long for a processor, must not take an answer that it has not read yet for one that is late.

use lagtrace_core::observed::time::Timestamp;

use super::MAX_EVENTS;

/// The time up to which what had arrived was read.
#[derive(Debug)]
pub(super) struct HeardUntil {
    time: Timestamp,
    /// The beginning of waits that each returned as many events as fit, and the number of their
    /// events; `None` after a wait that returned fewer.
    full: Option<(Timestamp, usize)>,
}

impl HeardUntil {
    /// Nothing can have arrived before the worker began.
    pub(super) fn since(begun: Timestamp) -> Self {
        Self {
            time: begun,
            full: None,
        }
    }

    /// Returns the time: an answer that had arrived by then was read.
    pub(super) fn time(&self) -> Timestamp {
        self.time
    }

    /// Notes a wait that began at `at` and returned this number of events, which have been handled.
    /// epoll returns each ready socket before it returns one for a second time.
    pub(super) fn note(&mut self, at: Timestamp, events: usize, sockets: usize) {
        let (begun, before) = self.full.unwrap_or((at, 0));
        let told = before + events;
        if events < MAX_EVENTS || told >= sockets {
            (self.time, self.full) = (begun, None);
        } else {
            self.full = Some((begun, told));
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(0) + Duration::from_millis(ms)
    }

    proptest::proptest! {
        /// Also if more sockets are ready all the time than a wait returns.
        #[test]
        fn all_sockets_are_heard_once_each_could_have_been_told(
            sockets in 1_usize..1000,
            begun in 1_u64..1000,
            pause in 1_u64..3000,
        ) {
            let mut heard = HeardUntil::since(at(0));
            let mut now = begun;
            for _ in 0..sockets.div_ceil(MAX_EVENTS) {
                proptest::prop_assert_eq!(heard.time(), at(0));
                heard.note(at(now), MAX_EVENTS, sockets);
                now += pause;
            }
            proptest::prop_assert_eq!(heard.time(), at(begun));
            heard.note(at(now), MAX_EVENTS - 1, sockets);
            proptest::prop_assert_eq!(heard.time(), at(now));
        }
    }
}
