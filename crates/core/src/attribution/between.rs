//! The time between a request and the first byte of its response.

use core::time::Duration;

use super::{LEAST_DELAYED_ACK, LEAST_TIMEOUT, REORDERING, Tiler, Trace, gap, repair};
use crate::attribution::packet::Arrival;
use crate::attribution::packet::Need;
use crate::attribution::packet::Order;
use crate::attribution::packet::longest_repair;
use crate::attribution::packet_record::{Data, PacketRecord};
use crate::attribution::rtt::LEAST_ERROR;
use crate::exchange::Side;
use crate::exchange::wait::{Bound, Owner, WaitKind};
use crate::observed::time::Timestamp;

impl Tiler<'_> {
    /// Attributes the time from the complete request to the response's first byte: loss of the
    /// request, waiting for other responses, propagation, and the server.
    pub(super) fn between(&mut self, request_end: Timestamp, first: &PacketRecord) {
        let trace = self.trace;
        self.push(
            request_end,
            WaitKind::RequestTransfer,
            Owner::Path,
            None,
            Bound::Observed,
        );
        let Some(from) = self.recover_request(request_end, first) else {
            self.unexplained(first);
            return;
        };
        if let Some(until) = trace.behind.filter(|&until| until > from) {
            // The response would have needed its propagation time in any case.
            let propagation = trace.trips.server.floor().unwrap_or_default();
            let (path, owner) = (WaitKind::RoundTrip, Owner::Path);
            self.push(
                until.min(from + propagation),
                path,
                owner,
                None,
                Bound::Observed,
            );
            self.push(
                until,
                WaitKind::Behind,
                Owner::Server,
                None,
                Bound::Observed,
            );
            self.after_other_response(first);
            return;
        }
        if trace.is_torn(Side::Client, trace.request.start, trace.request.end) {
            self.unexplained(first);
            return;
        }
        if self.misses_bytes_before(first) {
            self.unexplained(first);
            return;
        }
        let from = self.still_coming(from, first);
        self.propagation_and_think(from, first);
    }

    /// Returns the earliest time, by the client's clock, at which the request may be complete at
    /// the server: an acknowledgement of only a part of the request shows that the rest was queued
    /// until then.
    fn still_coming(&mut self, from: Timestamp, first: &PacketRecord) -> Timestamp {
        let trace = self.trace;
        let Some(propagation) = trace
            .trips
            .server
            .floor()
            .filter(|_| trace.is_near(Side::Client))
        else {
            return from;
        };
        let partial = trace.packets.iter().rev().find(|packet| {
            let is_part = packet.ack > trace.request.start && packet.ack < trace.request.end;
            packet.by == Side::Server && packet.at < first.at && is_part && packet.is_news
        });
        let Some(partial) = partial.filter(|partial| partial.at - propagation > from) else {
            return from;
        };
        let until = partial.at - propagation;
        let (kind, released_by) = (WaitKind::RequestTransfer, Some(partial.number));
        self.push(until, kind, Owner::Path, released_by, Bound::Observed);
        until
    }

    /// Attributes retransmissions of the request, seen where the client sends them. Returns the
    /// time at which the last necessary one was sent, `None` if that cannot be determined.
    fn recover_request(
        &mut self,
        request_end: Timestamp,
        first: &PacketRecord,
    ) -> Option<Timestamp> {
        let trace = self.trace;
        if !trace.pipe(Side::Client).has_repeats {
            return Some(request_end);
        }
        if !trace.is_near(Side::Client) && trace.is_beside(Side::Server) {
            return Some(self.ignored_request(request_end, first));
        }
        let repeat = trace.packets.iter().rev().find(|packet| {
            let repeats = packet.data.is_some_and(|data| {
                data.arrival == Arrival::Repeat
                    && data.need != Need::Spurious
                    && data.span.start < trace.request.end
                    && data.span.end > trace.request.start
            });
            repeats && packet.by == Side::Client && packet.at > request_end && packet.at < first.at
        });
        // An answer that came sooner than the path allows answered the first copy. With timestamps,
        // the answer itself says which copy it echoes; the quickest round trip may have had a queue
        // too.
        let is_echoed = trace.pipe(Side::Client).has_timestamps
            && repeat.is_some_and(|packet| packet.data.is_some_and(|d| d.need == Need::Needed));
        let queued = if is_echoed {
            Duration::ZERO
        } else {
            first.queued.possible()
        };
        let propagation = trace.trips.server.floor().unwrap_or_default() * 7 / 8 + queued;
        let is_answered =
            |repeat: &&PacketRecord| first.at.since(repeat.at) + LEAST_ERROR >= propagation;
        let Some(repeat) = repeat.filter(is_answered) else {
            return Some(request_end).filter(|_| !trace.is_request_overdue());
        };
        // A packet that a router rejected was split to fit, which is not a silent loss.
        let is_loss = |data: Data| data.need == Need::Needed && !data.was_too_big;
        if !repeat.data.is_some_and(is_loss) {
            return None;
        }
        self.push(
            repeat.at,
            WaitKind::Recovery,
            Owner::Path,
            Some(repeat.number),
            Bound::Observed,
        );
        let took = repeat.at.since(request_end);
        self.tiling
            .loss
            .recoveries
            .push(repair::recovery(trace, repeat, took, took, false));
        Some(repeat.at)
    }

    /// Returns the time when the server's host finally accepted the request, as seen at the server.
    /// If a copy arrives one timeout after an earlier copy that was also seen there, and the server
    /// sent no segment in between, the host had accepted none of the earlier copies.
    fn ignored_request(&mut self, request_end: Timestamp, first: &PacketRecord) -> Timestamp {
        let trace = self.trace;
        let is_between = |packet: &&PacketRecord| packet.at >= request_end && packet.at < first.at;
        let mut since = trace.packets.iter().filter(is_between);
        let is_word =
            |packet: &PacketRecord| packet.by == Side::Server && packet.ack > trace.request.start;
        let repeats = |packet: &PacketRecord| {
            let data = packet.data.filter(|_| packet.by == Side::Client);
            data.is_some_and(|data| {
                data.arrival == Arrival::Repeat
                    && data.need != Need::Spurious
                    && data.span.start < trace.request.end
                    && data.span.end > trace.request.start
                    && packet.at.since(request_end) >= LEAST_TIMEOUT
            })
        };
        let mut taken = None;
        for packet in since.by_ref() {
            if is_word(packet) {
                break;
            }
            taken = Some(packet).filter(|packet| repeats(packet)).or(taken);
        }
        let Some(taken) = taken else {
            return request_end;
        };
        self.push(
            taken.at,
            WaitKind::Recovery,
            Owner::Server,
            Some(taken.number),
            Bound::Observed,
        );
        taken.at
    }

    /// Attributes the wait of a pipelined response to what released it once the response before it
    /// was sent.
    fn after_other_response(&mut self, first: &PacketRecord) {
        let found = self
            .trace
            .packets
            .iter()
            .position(|packet| packet.number == first.number);
        let index = found.unwrap_or_default();
        let before = self
            .trace
            .packets
            .get(..index)
            .unwrap_or_default()
            .iter()
            .rev();
        match before
            .into_iter()
            .find(|packet| packet.by == Side::Server && packet.data.is_some())
        {
            Some(before) => self.name_gap_between(before, first, index),
            None => self.push(
                first.at,
                WaitKind::ServerThink,
                Owner::Server,
                Some(first.number),
                Bound::Observed,
            ),
        }
    }

    fn propagation_and_think(&mut self, from: Timestamp, first: &PacketRecord) {
        let from = self.shut_out(from, first);
        if self.held_with_others(from, first) {
            return;
        }
        let trip = self.trace.trips.server;
        let Some(propagation) = self.propagation(from, first.at) else {
            self.unexplained(first);
            return;
        };
        if first.queued.possible() > first.queued.known() + LEAST_DELAYED_ACK {
            // The lag is due to a queue, or to a server clock with another tick.
            self.unexplained(first);
            return;
        }
        let propagation = propagation + first.queued.known();
        let whole = first.at.since(from);
        let propagation = propagation.min(whole);
        let is_long = whole > propagation + LEAST_DELAYED_ACK;
        let was_sent_before = whole > propagation + REORDERING
            && self.was_sent_before(first)
            && !self.is_merely_late(first, whole, propagation)
            && !repair::is_overtaking(self.trace, first);
        if was_sent_before || (is_long && first.skipped > 0) {
            self.after_skipped(from, propagation, first);
            return;
        }
        if whole >= propagation + LEAST_TIMEOUT && self.misses_request() {
            self.unexplained(first);
            return;
        }
        if self.trace.doubts.is_unasked {
            self.unexplained(first);
            return;
        }
        let is_notable = whole > propagation + REORDERING;
        if is_notable
            && self
                .tiling
                .loss
                .recoveries
                .iter()
                .any(|r| r.sender == Side::Client)
        {
            // The request was retransmitted: from here it is not visible whether the request was
            // lost, or its response, which was then retransmitted too.
            self.unexplained(first);
            return;
        }
        let inferred = Bound::Inferred(trip.split_error());
        let (out, back) = (propagation / 2, propagation - propagation / 2);
        self.push(from + out, WaitKind::RoundTrip, Owner::Path, None, inferred);
        self.push(
            first.at - back,
            WaitKind::ServerThink,
            Owner::Server,
            None,
            inferred,
        );
        self.push(
            first.at,
            WaitKind::RoundTrip,
            Owner::Path,
            Some(first.number),
            inferred,
        );
    }

    /// Attributes the time for which the client's window was closed when it sent the request, so
    /// that the response had to wait. Returns the time when the window opened.
    fn shut_out(&mut self, from: Timestamp, first: &PacketRecord) -> Timestamp {
        let words = self
            .trace
            .packets
            .iter()
            .filter(|packet| packet.by == Side::Client);
        let mut words = words.skip_while(|word| word.at < from || !word.is_closed);
        if words.next().is_none_or(|closed| closed.at > from) {
            return from;
        }
        let open = words.find(|word| !word.is_closed);
        let Some(open) = open.filter(|open| open.at < first.at) else {
            return from;
        };
        let (kind, owner) = (WaitKind::WindowFull, Owner::Client);
        self.push(open.at, kind, owner, Some(open.number), Bound::Observed);
        open.at
    }

    /// Attributes the time to a response before which segments of the server are missing here. A
    /// single missing segment may be the server's bare ACK of the request, which the capture missed
    /// or the path lost; then the server's think time is unknown. Several missing segments are
    /// first copies of the response. A single one is a first copy too if it was the beginning of
    /// the response, or if the server's ACKs show that it was sent earlier.
    fn after_skipped(&mut self, from: Timestamp, propagation: Duration, first: &PacketRecord) {
        let took = first.at.since(from).saturating_sub(propagation);
        let is_lost = is_repaired(self.trace, first, took) || self.was_sent_before(first);
        if is_lost && !self.trace.is_near(Side::Server) {
            self.recover_response(from, propagation, first);
            return;
        }
        self.unexplained(first);
    }

    /// Returns true if the response's first byte, or the bytes after it, are known to have been
    /// sent before `first` arrived.
    fn was_sent_before(&self, first: &PacketRecord) -> bool {
        first.data.is_some_and(|data| {
            matches!(data.arrival, Arrival::PastHole | Arrival::Fill)
                || data.span.start > self.trace.response.start
        })
    }

    /// Returns true if `first` fills a hole and came too soon, `whole` after the request, for a
    /// repair: its first copy takes the propagation, and the report of the hole a round trip more.
    fn is_merely_late(&self, first: &PacketRecord, whole: Duration, propagation: Duration) -> bool {
        let is_too_soon = whole < (propagation + self.trace.whole_trip()) * 7 / 8;
        let is_fill = |data: Data| data.arrival == Arrival::Fill && data.order != Order::Newer;
        is_too_soon && first.data.is_some_and(is_fill)
    }

    /// Returns true if the bytes before those of `first` arrived, and the capture missed them.
    fn misses_bytes_before(&self, first: &PacketRecord) -> bool {
        first.data.is_some_and(|data| {
            let is_past_hole = data.arrival == Arrival::PastHole;
            let begin = self.trace.response.start.min(data.span.start);
            let from = begin.saturating_sub(u64::from(is_past_hole));
            self.trace.is_torn(Side::Server, from, data.span.start)
        })
    }

    /// Returns true if the capture was taken at the client and missed one of its segments, which
    /// may have been the retransmitted request.
    fn misses_request(&self) -> bool {
        self.trace.is_near(Side::Client)
            && self
                .trace
                .packets
                .iter()
                .any(|packet| packet.by == Side::Client && packet.skipped > 0)
    }

    fn unexplained(&mut self, first: &PacketRecord) {
        self.push(
            first.at,
            WaitKind::Unknown,
            Owner::Unknown,
            Some(first.number),
            Bound::Observed,
        );
    }

    /// Attributes the wait for a response whose first copy was lost before the observation point.
    fn recover_response(&mut self, from: Timestamp, propagation: Duration, first: &PacketRecord) {
        let took = first.at.since(from).saturating_sub(propagation);
        let inferred = Bound::Inferred(self.trace.trips.server.split_error());
        self.push(
            from + propagation / 2,
            WaitKind::RoundTrip,
            Owner::Path,
            None,
            inferred,
        );
        self.push(
            first.at - propagation / 2,
            WaitKind::Recovery,
            Owner::Path,
            None,
            inferred,
        );
        self.push(
            first.at,
            WaitKind::RoundTrip,
            Owner::Path,
            Some(first.number),
            inferred,
        );
        self.tiling
            .loss
            .recoveries
            .push(repair::recovery(self.trace, first, took, took, false));
    }

    /// Returns the propagation part of the time to the first response byte: the minimum round trip,
    /// or this exchange's round trip as shown by a bare ACK of the server's kernel. Such an ACK may
    /// itself be delayed, by 40 ms or more.
    fn propagation(&self, from: Timestamp, until: Timestamp) -> Option<Duration> {
        let floor = self.trace.trips.server.floor()?;
        if self.trace.is_near(Side::Server) && !self.trace.is_near(Side::Client) {
            // Within one host there is no path: a late ACK means a busy kernel.
            return Some(floor);
        }
        let kernel_reply = self.trace.packets.iter().find(|packet| {
            packet.by == Side::Server
                && packet.data.is_none()
                && packet.at > from
                && packet.at < until
                && packet.ack >= self.trace.request.end
        });
        let seen =
            kernel_reply.map(|packet| packet.at.since(self.asked_for(from, packet.at - floor / 2)));
        let quick = seen.filter(|&seen| seen < floor + LEAST_DELAYED_ACK);
        Some(quick.map_or(floor, |quick| quick.max(floor)))
    }

    /// Returns the time of the segment that a given segment of the server answers: the client's
    /// last segment that passed by `until`. A FIN after a request, for example, is acknowledged
    /// immediately together with the request, whose own acknowledgement would have waited for a
    /// timer.
    fn asked_for(&self, from: Timestamp, until: Timestamp) -> Timestamp {
        let packets = self.trace.packets.iter();
        let own = packets.filter(|packet| packet.by == Side::Client && packet.at <= until);
        own.map(|packet| packet.at).max().unwrap_or(from).max(from)
    }

    /// Attributes the gap between two responses: a pause there is the think time of the second one.
    fn name_gap_between(&mut self, before: &PacketRecord, first: &PacketRecord, index: usize) {
        let mut gap = gap::name(self.trace, &self.flow, before, first, index);
        if let Some((kind @ WaitKind::ServerPause, _)) = &mut gap.wait {
            *kind = WaitKind::ServerThink;
        }
        self.take_gap(gap, first);
    }
}

/// Returns true if the server's segments that are missing before `first` may have been copies of
/// it; `first` came `took` later than the path requires. One of them is a bare ACK, or as many as
/// the request has segments. If one more is missing, a probe retransmitted it; if more are missing,
/// a timer was needed.
fn is_repaired(trace: &Trace<'_>, first: &PacketRecord, took: Duration) -> bool {
    let lost = repair::lost_before(trace, first).min(first.skipped.saturating_sub(1));
    let least = match lost {
        0 => return false,
        // Paths are at times slightly quicker than the minimum round trip seen.
        1 => LEAST_TIMEOUT.min(trace.whole_trip() * 2 * 7 / 8),
        _ => LEAST_TIMEOUT,
    };
    took >= least && took <= longest_repair(first.skipped)
}
