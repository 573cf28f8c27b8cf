//! Cuts a closed exchange into waits, each named after what released it.
//!
//! In come the marks of one exchange and the round trips from the observation
//! point to both ends; out come waits that tile it. It judges single waits
//! only: whether they add up to a cause is for the rules to say.

mod drops;
mod expect;
mod flow;
mod gap;
mod heard;
mod narrow;
mod overlay;
mod packing;
mod release;
mod repair;
mod stop;
mod stops;

pub(crate) use overlay::Held;

use core::mem::take;
use core::time::Duration;

use crate::connection::half::{Arrival, Pipe, Span};
use crate::connection::repeats::Need;
use crate::connection::rtt::RoundTrip;
use crate::delivery::Delivery;
use crate::exchange::{
    Disorder, Drops, Exchange, Expectation, Hold, Narrow, Packing, Recovery, Side, Travel,
};
use crate::mark::{Data, Mark};
use crate::time::Timestamp;
use crate::wait::{Bound, Owner, Wait, WaitKind};
use flow::{Flow, Piece};
use stop::Stop;
pub(crate) use stops::Before;

/// A kernel that acknowledges at once does so well below the least delayed
/// ACK (40 ms on Linux, `TCP_DELACK_MIN` in `include/net/tcp.h`).
pub(crate) const LEAST_DELAYED_ACK: Duration = Duration::from_millis(20);

/// Retransmission timers expire no sooner (`TCP_RTO_MIN`, 200 ms, less a tick).
const LEAST_TIMEOUT: Duration = Duration::from_millis(180);

/// Data this late behind later data was reordered, not lost (RFC 8985 §6.2
/// step 4 waits a quarter of the round trip).
const REORDERING: Duration = Duration::from_millis(1);

/// One exchange's marks and what is known around them.
#[derive(Debug)]
pub(crate) struct Trace<'a> {
    /// From the exchange's first mark on; may go on after its end.
    pub(crate) marks: &'a [Mark],
    pub(crate) begin: Timestamp,
    pub(crate) end: Timestamp,
    /// The request's bytes in the client's stream.
    pub(crate) request: Span,
    /// The response's bytes in the server's stream.
    pub(crate) response: Span,
    /// Stretches that the capture missed, by sender.
    pub(crate) torn: &'a [(Side, Span)],
    /// When an earlier response on this connection ended, if the request was
    /// sent before.
    pub(crate) behind: Option<Timestamp>,
    /// Whether the response lasts until the server's FIN.
    pub(crate) ends_with_fin: bool,
    /// Where the request's head ends, if it asks for leave to send its body.
    pub(crate) expects_at: Option<u64>,
    /// When and as which packet the first interim response came.
    pub(crate) interim: Option<(Timestamp, u64)>,
    pub(crate) to_server: RoundTrip,
    pub(crate) to_client: RoundTrip,
    /// How the client sends, and how the server does.
    pub(crate) pipes: [Pipe; 2],
    pub(crate) before: Before,
}

impl Trace<'_> {
    fn round_trip(&self, to: Side) -> RoundTrip {
        match to {
            Side::Client => self.to_client,
            Side::Server => self.to_server,
        }
    }

    /// From end to end and back, as far as it is known.
    fn whole_trip(&self) -> Duration {
        let trips = [self.to_client.floor(), self.to_server.floor()];
        trips.into_iter().flatten().sum()
    }

    fn pipe(&self, sender: Side) -> &Pipe {
        let [client, server] = &self.pipes;
        match sender {
            Side::Client => client,
            Side::Server => server,
        }
    }

    /// The least round trip from end to end.
    pub(crate) fn whole_round_trip(&self) -> Option<Duration> {
        Some(self.to_server.floor()? + self.to_client.floor()?)
    }

    fn span(&self, sender: Side) -> Span {
        match sender {
            Side::Client => self.request,
            Side::Server => self.response,
        }
    }

    /// Whether the point stands nearer to `side` than to its peer: that side's
    /// losses happen behind the point, and its retransmissions are seen twice.
    fn is_near(&self, side: Side) -> bool {
        let (own, peer) = (
            self.round_trip(side).floor(),
            self.round_trip(side.peer()).floor(),
        );
        matches!((own, peer), (Some(own), Some(peer)) if own <= peer)
    }

    fn is_torn(&self, sender: Side, from: u64, to: u64) -> bool {
        self.torn
            .iter()
            .any(|&(side, span)| side == sender && span.start < to && span.end > from)
    }
}

/// The outcome of tiling.
#[derive(Debug, Default)]
pub(crate) struct Tiling {
    pub(crate) waits: Vec<Wait>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) recoveries: Vec<Recovery>,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) disorder: Disorder,
    pub(crate) travel: Travel,
    pub(crate) narrow: Option<Narrow>,
    pub(crate) drops: Option<Box<Drops>>,
    pub(crate) packing: Packing,
    pub(crate) harmless_delay: Option<Duration>,
    pub(crate) expectation: Option<Expectation>,
    /// From the last byte to the FIN that ends the response.
    pub(crate) close_wait: Option<Duration>,
}

/// Lists whose memory is used again for the next exchange.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    waits: Vec<Wait>,
    holds: Vec<Hold>,
    recoveries: Vec<Recovery>,
    deliveries: Vec<Delivery>,
    stops: Vec<Stop>,
    pieces: Vec<Piece>,
}

impl Spare {
    /// Uses the memory of an exchange that is done with.
    pub(crate) fn take_back(&mut self, exchange: Exchange) {
        self.waits = emptied(exchange.waits);
        self.holds = emptied(exchange.holds);
        self.recoveries = emptied(exchange.recoveries);
        self.deliveries = emptied(exchange.deliveries);
    }

    fn tiling(&mut self) -> Tiling {
        Tiling {
            waits: take(&mut self.waits),
            holds: take(&mut self.holds),
            recoveries: take(&mut self.recoveries),
            deliveries: take(&mut self.deliveries),
            ..Tiling::default()
        }
    }
}

fn emptied<T>(mut list: Vec<T>) -> Vec<T> {
    list.clear();
    list
}

/// Tiles one exchange. The waits' durations add up to `end - begin` exactly.
pub(crate) fn tile(trace: &Trace<'_>, spare: &mut Spare) -> Tiling {
    let mut tiler = Tiler {
        trace,
        cursor: trace.begin,
        tiling: spare.tiling(),
        flow: Flow::default(),
        stops: take(&mut spare.stops),
        pieces: take(&mut spare.pieces),
    };
    let request_end = tiler.walk(Side::Client);
    let first = first_response(trace);
    if let Some(first) = first {
        tiler.between(request_end, first);
    }
    tiler.walk(Side::Server);
    tiler.tiling.close_wait = trace.ends_with_fin.then(|| trace.end.since(tiler.cursor));
    let (kind, owner) = match trace.ends_with_fin {
        true => (WaitKind::ServerPause, Owner::Server),
        false => (WaitKind::Unknown, Owner::Unknown),
    };
    tiler.push(trace.end, kind, owner, None, Bound::Observed);
    tiler.tiling.packing = packing::packing(trace);
    tiler.tiling.harmless_delay = harmless_delay(trace);
    tiler.tiling.travel = travel(trace, request_end, first, &tiler.tiling.recoveries);
    tiler.tiling.narrow = narrow::narrow(trace, &tiler.tiling.recoveries);
    tiler.tiling.drops = drops::drops(trace, &tiler.tiling.recoveries);
    (spare.stops, spare.pieces) = (tiler.stops, tiler.pieces);
    tiler.tiling
}

struct Tiler<'a> {
    trace: &'a Trace<'a>,
    cursor: Timestamp,
    tiling: Tiling,
    /// Of the message that is walked.
    flow: Flow,
    stops: Vec<Stop>,
    pieces: Vec<Piece>,
}

impl Tiler<'_> {
    /// Appends a wait up to `end`, clamped to what is left; empty ones vanish
    /// and equal neighbours merge.
    fn push(
        &mut self,
        end: Timestamp,
        kind: WaitKind,
        owner: Owner,
        released_by: Option<u64>,
        bound: Bound,
    ) {
        let end = end.min(self.trace.end);
        if end <= self.cursor {
            return;
        }
        let wait = Wait {
            start: self.cursor,
            end,
            kind,
            owner,
            released_by,
            bound,
        };
        self.cursor = end;
        match self.tiling.waits.last_mut() {
            Some(last) if last.kind == kind && last.owner == owner && last.bound == bound => {
                last.end = end;
                last.released_by = released_by;
            }
            _ => self.tiling.waits.push(wait),
        }
    }

    /// Walks one side's data marks and names the gaps between them. The time
    /// of the last one: when the message was whole here.
    fn walk(&mut self, sender: Side) -> Timestamp {
        let span = self.trace.span(sender);
        self.flow = Flow::of(self.trace, sender, &mut self.pieces);
        let mut last: Option<&Mark> = None;
        for (index, mark) in self.trace.marks.iter().enumerate() {
            let Some(data) = mark.data.filter(|_| mark.by == sender) else {
                continue;
            };
            let is_ours = data.span.start < span.end && data.span.end > span.start;
            let is_within = (self.trace.begin..=self.trace.end).contains(&mark.at);
            if !is_ours || self.is_needless(mark, data) || !is_within {
                continue;
            }
            // What repeats a whole request belongs to the wait for the response.
            let is_whole = self.is_whole(last, span) && data.arrival != Arrival::Fill;
            if sender == Side::Client && is_whole {
                break;
            }
            if let Some(before) = last {
                self.name_gap(before, mark, index);
            }
            last = Some(mark);
        }
        let delivery = stops::delivery(self.trace, sender, &self.flow, &self.stops);
        self.tiling.deliveries.extend(delivery);
        self.stops.clear();
        last.map_or(self.trace.begin, |mark| mark.at)
    }

    /// Whether the segment changed nothing at its receiver, noting why.
    fn is_needless(&mut self, mark: &Mark, data: Data) -> bool {
        match data.arrival {
            Arrival::Copy => self.tiling.disorder.copied(mark.number),
            // Where an original is seen to arrive, so is what repeats it in vain.
            Arrival::Repeat if data.need == Need::Spurious || !self.trace.is_near(mark.by) => {
                self.tiling.disorder.resent(mark.number);
            }
            Arrival::KeepAlive => {}
            Arrival::InOrder | Arrival::PastHole | Arrival::Fill | Arrival::Repeat => return false,
        }
        true
    }

    fn is_whole(&self, last: Option<&Mark>, span: Span) -> bool {
        last.and_then(|mark| mark.data)
            .is_some_and(|data| data.span.end >= span.end)
    }

    fn name_gap(&mut self, before: &Mark, mark: &Mark, index: usize) {
        let gap = gap::name(self.trace, &self.flow, before, mark, index);
        if self.awaited_leave(before, mark, &gap) {
            return;
        }
        self.stops.extend(gap.stop);
        self.take_gap(gap, mark);
    }

    /// The same between two responses: a pause there is the next one's think
    /// time.
    fn name_gap_between(&mut self, before: &Mark, first: &Mark, index: usize) {
        let mut gap = gap::name(self.trace, &self.flow, before, first, index);
        if let Some((kind @ WaitKind::ServerPause, _)) = &mut gap.wait {
            *kind = WaitKind::ServerThink;
        }
        self.take_gap(gap, first);
    }

    fn take_gap(&mut self, gap: gap::Gap, mark: &Mark) {
        if let Some(hold) = gap.hold {
            self.tiling.holds.push(hold);
        }
        if let Some(recovery) = gap.recovery {
            self.tiling.recoveries.push(recovery);
        }
        if let Some(late) = gap.overtaken {
            self.tiling.disorder.overtook(mark.number, late);
        }
        if let Some((kind, owner)) = gap.wait {
            self.push(mark.at, kind, owner, Some(mark.number), Bound::Observed);
        }
    }

    /// The time from the whole request to the response's first byte: loss of
    /// the request, time behind other responses, travel, and the server.
    fn between(&mut self, request_end: Timestamp, first: &Mark) {
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
            // By itself too the response would have had to travel.
            let travel = trace.to_server.floor().unwrap_or_default();
            let (path, owner) = (WaitKind::RoundTrip, Owner::Path);
            self.push(until.min(from + travel), path, owner, None, Bound::Observed);
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
        self.travel_and_think(from, first);
    }

    /// Retransmissions of the request, seen where the client sends them: when
    /// the last one left that had to, `None` where that cannot be told.
    fn recover_request(&mut self, request_end: Timestamp, first: &Mark) -> Option<Timestamp> {
        let trace = self.trace;
        if !trace.is_near(Side::Client) || !trace.pipe(Side::Client).has_repeats {
            return Some(request_end);
        }
        let repeat = trace.marks.iter().rev().find(|mark| {
            let repeats = mark.data.is_some_and(|data| {
                data.arrival == Arrival::Repeat
                    && data.need != Need::Spurious
                    && data.span.start < trace.request.end
                    && data.span.end > trace.request.start
            });
            repeats && mark.by == Side::Client && mark.at > request_end && mark.at < first.at
        });
        // An answer sooner than the path allows was to the first copy.
        let travel = trace.to_server.floor().unwrap_or_default() * 7 / 8 + first.queued.possible;
        let Some(repeat) = repeat.filter(|repeat| first.at.since(repeat.at) >= travel) else {
            return Some(request_end);
        };
        if repeat.data.is_none_or(|data| data.need != Need::Needed) {
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
            .recoveries
            .push(repair::recovery(trace, repeat, took, took, false));
        Some(repeat.at)
    }

    /// A pipelined response: what let it go once the one before was out.
    fn after_other_response(&mut self, first: &Mark) {
        let found = self
            .trace
            .marks
            .iter()
            .position(|mark| mark.number == first.number);
        let index = found.unwrap_or_default();
        let before = self
            .trace
            .marks
            .get(..index)
            .unwrap_or_default()
            .iter()
            .rev();
        match before
            .into_iter()
            .find(|mark| mark.by == Side::Server && mark.data.is_some())
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

    fn travel_and_think(&mut self, from: Timestamp, first: &Mark) {
        let trip = self.trace.to_server;
        let Some(travel) = self.travel(from, first.at) else {
            self.unexplained(first);
            return;
        };
        if first.queued.possible > first.queued.known + LEAST_DELAYED_ACK {
            // A queue, or a server whose clock ticks otherwise.
            self.unexplained(first);
            return;
        }
        let travel = travel + first.queued.known;
        let whole = first.at.since(from);
        let travel = travel.min(whole);
        let is_long = whole > travel + LEAST_DELAYED_ACK;
        let was_sent_before = self.was_sent_before(first) && whole > travel + REORDERING;
        if was_sent_before || (is_long && first.skipped > 0) {
            self.after_skipped(from, travel, first);
            return;
        }
        if whole >= travel + LEAST_TIMEOUT && self.misses_request() {
            self.unexplained(first);
            return;
        }
        let is_notable = whole > travel + REORDERING;
        if is_notable
            && self
                .tiling
                .recoveries
                .iter()
                .any(|r| r.sender == Side::Client)
        {
            // The request was sent again: whether it or its response was lost,
            // and the response again, cannot be told from here.
            self.unexplained(first);
            return;
        }
        let inferred = Bound::Inferred(trip.split_error());
        let (out, back) = (travel / 2, travel - travel / 2);
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

    /// Segments of the server never came here before its response did. One may
    /// be its bare ACK of the request, which the capture missed or the path
    /// lost, and then nothing tells how long the server took. More are the
    /// response's first copies, and so is one that was the response's begin, or
    /// that the server's ACKs say was sent before.
    fn after_skipped(&mut self, from: Timestamp, travel: Duration, first: &Mark) {
        let is_lost = first.skipped > 1 || self.was_sent_before(first);
        if is_lost && !self.trace.is_near(Side::Server) {
            self.recover_response(from, travel, first);
            return;
        }
        self.unexplained(first);
    }

    /// Whether the response's first byte, or what follows it, is known to have
    /// been sent before `first` came.
    fn was_sent_before(&self, first: &Mark) -> bool {
        first.data.is_some_and(|data| {
            matches!(data.arrival, Arrival::PastHole | Arrival::Fill)
                || data.span.start > self.trace.response.start
        })
    }

    /// Whether the capture, beside the client, missed something of it: it may
    /// have been the request, sent again.
    fn misses_request(&self) -> bool {
        self.trace.is_near(Side::Client)
            && self
                .trace
                .marks
                .iter()
                .any(|mark| mark.by == Side::Client && mark.skipped > 0)
    }

    fn unexplained(&mut self, first: &Mark) {
        self.push(
            first.at,
            WaitKind::Unknown,
            Owner::Unknown,
            Some(first.number),
            Bound::Observed,
        );
    }

    /// The response's first copy was lost before it came here.
    fn recover_response(&mut self, from: Timestamp, travel: Duration, first: &Mark) {
        let took = first.at.since(from).saturating_sub(travel);
        let inferred = Bound::Inferred(self.trace.to_server.split_error());
        self.push(
            from + travel / 2,
            WaitKind::RoundTrip,
            Owner::Path,
            None,
            inferred,
        );
        self.push(
            first.at - travel / 2,
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
            .recoveries
            .push(repair::recovery(self.trace, first, took, took, false));
    }

    /// The travel's part in the time to the first response byte: the round
    /// trip's floor, or what a bare ACK by the server's kernel says it was
    /// this time. Such an ACK may itself be delayed, by 40 ms or more.
    fn travel(&self, from: Timestamp, until: Timestamp) -> Option<Duration> {
        let floor = self.trace.to_server.floor()?;
        if self.trace.is_near(Side::Server) && !self.trace.is_near(Side::Client) {
            // No path lies between: a kernel that is late there is busy.
            return Some(floor);
        }
        let kernel_reply = self.trace.marks.iter().find(|mark| {
            mark.by == Side::Server
                && mark.data.is_none()
                && mark.at > from
                && mark.at < until
                && mark.ack >= self.trace.request.end
        });
        let seen = kernel_reply.map(|mark| mark.at.since(from));
        let quick = seen.filter(|&seen| seen < floor + LEAST_DELAYED_ACK);
        Some(quick.map_or(floor, |quick| quick.max(floor)))
    }
}

fn first_response<'a>(trace: &'a Trace<'_>) -> Option<&'a Mark> {
    trace.marks.iter().find(|mark| {
        mark.by == Side::Server
            && mark.data.is_some_and(|data| {
                data.span.end > trace.response.start && data.span.start < trace.response.end
            })
    })
}

/// What the packets tell of the way.
fn travel(
    trace: &Trace<'_>,
    request_end: Timestamp,
    first: Option<&Mark>,
    recoveries: &[Recovery],
) -> Travel {
    let request = trace
        .marks
        .iter()
        .find(|mark| mark.by == Side::Client && mark.data.is_some());
    let is_clean = recoveries.is_empty() && trace.behind.is_none();
    let reply = first.filter(|first| {
        let whole = first
            .data
            .is_some_and(|d| d.span.start <= trace.response.start);
        is_clean && whole && first.at >= request_end
    });
    let until = first.map_or(Timestamp::MIN, |first| first.at);
    let mut before = trace.marks.iter().take_while(|mark| mark.at < until);
    let is_acked_first = before.any(|mark| {
        mark.by == Side::Server && mark.data.is_none() && mark.ack >= trace.request.end
    });
    let queued = |mark: Option<&Mark>| mark.map(|m| m.queued.known).unwrap_or_default();
    Travel {
        idle: request.and_then(|mark| mark.idle),
        reply: reply.map(|first| first.at.since(request_end)),
        is_acked_first,
        queued: [queued(request), queued(first)],
        heard_late: heard::late(trace).filter(|_| is_clean),
        beyond: trace.to_client.floor().unwrap_or_default(),
        ttl: first.map_or(0, |first| first.ttl),
    }
}

/// A delayed ACK of the response's last bytes, with nothing left to hold back.
fn harmless_delay(trace: &Trace<'_>) -> Option<Duration> {
    let travel = trace.to_client.floor()?;
    let end = trace.response.end;
    let at = trace.marks.iter().rposition(|mark| {
        mark.by == Side::Server && mark.data.is_some_and(|data| data.span.end >= end)
    })?;
    let (last, after) = trace.marks.get(at..)?.split_first()?;
    let ack = after
        .iter()
        .find(|mark| mark.by == Side::Client && mark.at > last.at && mark.ack >= end)?;
    let delay = ack.at.since(last.at).saturating_sub(travel);
    (ack.data.is_none() && delay >= LEAST_DELAYED_ACK).then_some(delay)
}
