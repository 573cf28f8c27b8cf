//! The order of a connection's requests: how many of them were not read, whether they may have
//! waited for a stream, and how streams end early.

use core::time::Duration;

use super::Pairing;
use crate::attribution::packet_record::PacketKey;
use crate::connection::View;
use crate::exchange::{Side, StreamEnd, StreamSigns};
use crate::observed::time::Timestamp;
use crate::protocol::http2::GoAway;

/// Maximum time, besides the round trip to the client, from the end of a stream to the request that
/// had waited for it.
const REACTION: Duration = Duration::from_millis(1);

/// The requests of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requests {
    /// The client's latest stream.
    last: Option<u32>,
    /// True if frames were missed since the latest stream was opened.
    has_gap: bool,
    /// True if frames were ever missed.
    is_torn: bool,
    /// The maximum number of open streams, if the server has announced one.
    most: Option<u32>,
    /// The time at which the number of open streams fell below that maximum.
    full_until: Option<Timestamp>,
    leaving: Option<GoAway>,
    /// Streams that were given up because the server leaves: those after the first number, up to the
    /// client's latest stream at that time, the second.
    given_up: Option<(u32, Option<u32>)>,
}

impl Requests {
    pub(super) fn is_torn(&self) -> bool {
        self.is_torn
    }

    pub(super) fn is_later(&self, stream: u32) -> bool {
        self.last.is_none_or(|last| stream > last)
    }

    pub(super) fn join(&mut self) {
        self.is_torn = true;
    }

    pub(super) fn lose(&mut self) {
        (self.has_gap, self.is_torn, self.full_until) = (true, true, None);
    }

    pub(super) fn allow(&mut self, most: Option<u32>) {
        self.most = most.or(self.most);
    }

    /// Returns the number of requests before `stream` that were not read: a client opens streams
    /// with increasing odd numbers (RFC 9113 §5.1.1), and some leave numbers out, so only a gap in
    /// the frames counts.
    fn pass(&mut self, stream: u32) -> u32 {
        // On a connection that was joined midway, the first stream is the first that was seen.
        let first = if self.has_gap || !self.is_torn {
            1
        } else {
            stream
        };
        let before = self.last.map_or(first, |last| last.saturating_add(2));
        let skipped = stream.saturating_sub(before) / 2;
        self.last = Some(stream.max(self.last.unwrap_or_default()));
        let has_gap = core::mem::take(&mut self.has_gap);
        if has_gap { skipped } else { 0 }
    }
}

impl Pairing {
    /// Takes in that the client opens a stream.
    pub(super) fn stream_opens(
        &mut self,
        stream: u32,
        packet: &PacketKey,
        view: &View<'_>,
    ) -> StreamSigns {
        let open = self.awaited_streams();
        let Some(multiplex) = &mut self.multiplex else {
            return StreamSigns::default();
        };
        let requests = &mut multiplex.requests;
        let trip = view.to_client().floor().unwrap_or_default();
        let full = requests.full_until.take();
        let is_next = full.is_some_and(|at| packet.at.since(at) <= trip + REACTION);
        let most = requests.most.filter(|&most| most as usize == open + 1);
        let leaving = requests
            .leaving
            .filter(|leaving| stream > leaving.last_stream);
        StreamSigns {
            is_read: true,
            is_hidden: false,
            end: leaving.map(|leaving| StreamEnd::GoAway(leaving.code)),
            unread_before: requests.pass(stream),
            waited_at_limit: most.filter(|_| is_next),
        }
    }

    /// Records that this many open exchanges ended.
    pub(in super::super) fn streams_ended(&mut self, count: usize) {
        if let Some(multiplex) = &mut self.multiplex {
            multiplex.ended += count;
        }
    }

    /// Counts the open exchanges that ended, while there is only one: it may have ended long before
    /// its acknowledgement.
    pub(in super::super) fn recount_ended(&mut self) {
        if let (Some(multiplex), [first]) = (&mut self.multiplex, self.open.as_slices().0)
            && self.open.len() == 1
        {
            multiplex.ended = usize::from(!first.is_awaited());
        }
    }

    /// Returns true if any of the open exchanges may have ended. There may be a thousand, so they are
    /// not looked through for each packet.
    #[inline]
    pub(in super::super) fn has_ended_streams(&self) -> bool {
        let multiplex = self.multiplex.as_ref();
        multiplex.is_none_or(|multiplex| multiplex.ended > 0)
    }

    /// Returns the number of streams whose end is awaited.
    fn awaited_streams(&self) -> usize {
        let ended = self
            .multiplex
            .as_ref()
            .map_or(0, |multiplex| multiplex.ended);
        self.open.len().saturating_sub(ended)
    }

    /// Takes in that a stream ended.
    pub(super) fn stream_closed(&mut self, at: Timestamp) {
        self.streams_ended(1);
        let open = self.awaited_streams();
        if let Some(multiplex) = &mut self.multiplex {
            let is_below = |most: u32| most as usize == open + 1;
            let requests = &mut multiplex.requests;
            requests.full_until = requests.most.filter(|&most| is_below(most)).map(|_| at);
        }
    }

    /// Takes in that a side resets a stream.
    pub(super) fn stream_reset(&mut self, by: Side, stream: u32, code: u32, at: Timestamp) {
        if let Some(draft) = self.stream(stream) {
            draft.signs.stream.end = Some(StreamEnd::Reset(by, code));
            draft.give_up(Some((Some(by), at, true)));
            self.stream_closed(at);
        }
    }

    /// Takes in that the server ends the connection: it does not process later streams.
    pub(super) fn server_leaves(&mut self, announced: GoAway, at: Timestamp) {
        let Some(multiplex) = &mut self.multiplex else {
            return;
        };
        let requests = &mut multiplex.requests;
        requests.leaving = Some(announced);
        let given_up = requests.given_up.filter(|known| known.1 == requests.last);
        let given_up = given_up.map(|(after, _)| after);
        let after = announced.last_stream.min(given_up.unwrap_or(u32::MAX));
        requests.given_up = Some((after, requests.last));
        // What was given up before is not looked through again.
        let from = self.streams_up_to(announced.last_stream);
        let until = given_up.map_or(self.open.len(), |after| self.streams_up_to(after));
        let later = self.open.range_mut(from..until.max(from));
        let mut count = 0;
        for draft in later.filter(|draft| draft.is_awaited() && draft.multiplexed.is_some()) {
            draft.signs.stream.end = Some(StreamEnd::GoAway(announced.code));
            draft.give_up(Some((Some(Side::Server), at, false)));
            count += 1;
        }
        self.streams_ended(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_gap_in_the_frames_hides_requests() {
        let mut requests = Requests::default();
        assert_eq!([1, 3, 9].map(|stream| requests.pass(stream)), [0, 0, 0]);
        requests.lose();
        assert_eq!([15, 17].map(|stream| requests.pass(stream)), [2, 0]);
        let mut requests = Requests::default();
        requests.lose();
        assert_eq!(requests.pass(5), 2);
    }
}
