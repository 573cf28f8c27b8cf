//! Exchanges joined to their turns: the time that packets assign to the server, split by the stages
//! that the server's kernel observed.
//!
//! Packets and turns are timestamped by one host's clock, at two places: where the packets were
//! captured, and in the server's network stack. The time that packets assign to the server is
//! between a request's arrival at the capture point and its response's departure from there. The
//! kernel timestamps the same two events, so the two durations must agree; otherwise the difference
//! is time between the two places. Only sums are kept.

mod passages;
mod rename;
mod waiting;

use core::time::Duration;

pub(crate) use waiting::Waiting;

use crate::exchange::wait::{Bound, Wait, WaitKind};
use crate::exchange::{Exchange, Outcome};
use crate::observed::kernel_span::{RequestSpan, Stage};
use crate::observed::time::Timestamp;
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Kinds of wait that packets show as the server's own time.
pub(crate) const KINDS: [WaitKind; 3] = [
    WaitKind::ServerThink,
    WaitKind::ServerPause,
    WaitKind::ResponseHeld,
];
/// Minimum wait that is worth splitting. Also the maximum time that a request may take to arrive:
/// with a slower request, the turn's stages include time of the client.
const WORTH_SPLITTING: Duration = Duration::from_millis(1);
/// Minimum difference that counts as a disagreement: smaller ones do not matter, because a busy
/// host may need that long from its device to its sockets. The error bounds of the waits are added.
const LEAST_DISAGREEMENT: Duration = Duration::from_millis(1);
/// Maximum difference between timestamps of one clock taken at different places in the network
/// stack: a packet may be stamped this much earlier or later than its segment.
const TIMESTAMP_ERROR: Duration = Duration::from_micros(200);
/// Number of ends of the server's time that are inferred from the round trip: its begin and its
/// end.
const INFERRED_ENDS: u32 = 2;

/// The result of the join for one service.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Served {
    /// Number of exchanges measured while turns were recorded.
    pub(crate) offered: u64,
    /// Number of exchanges with exactly one turn.
    pub(crate) exchanges: u64,
    /// Splits by the kind that the packets assign to a wait.
    splits: Splits,
    /// Splits by the kind that the rules use for a wait; `None` where no exchange was joined.
    #[merge(inner)]
    named: Option<Box<Splits>>,
    /// Excess of the time that packets assign to the server over the host's time until its
    /// response.
    pub(crate) beyond: Tally,
    /// Excess of the host's time over the maximum that packets leave for the host.
    pub(crate) within: Tally,
    /// The two figures of each disagreement: those of `beyond`, then those of `within`.
    pub(crate) said: [Said; 2],
}

/// The two figures of exchanges on which packets and host disagree.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Said {
    /// Time by the packets: the server's for `beyond`, the maximum left for the server for
    /// `within`.
    pub(crate) packets: Distribution,
    /// Time by the server's kernel.
    pub(crate) host: Distribution,
}

/// One split for each kind of wait, in the order of [`KINDS`].
type Splits = [Split; KINDS.len()];

/// A kind of wait, with the turns of the exchanges that had such a wait.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Split {
    /// Durations of the waits by packets.
    pub(crate) packets: Distribution,
    /// Durations of the same waits at the host: until the response's first byte left for waits
    /// before it, from the first byte to the last for waits within the response.
    pub(crate) host: Distribution,
    /// Times at each stage of the whole turn, in the order of [`RequestSpan::STAGES`].
    pub(crate) stages: [Distribution; RequestSpan::STAGES.len()],
}

impl Served {
    /// Records an exchange and, if it was seen, the turn within it. The turn renames the exchange's
    /// waits and gives the exchange its stages. An exchange without a whole response does not
    /// count.
    pub(crate) fn add_exchange(&mut self, exchange: &mut Exchange, turn: Option<RequestSpan>) {
        self.join(exchange, turn.as_ref());
    }

    /// Records an exchange as [`add_exchange`](Self::add_exchange) does. A turn is large, and there
    /// is none without the kernel's observations.
    pub(crate) fn join(&mut self, exchange: &mut Exchange, turn: Option<&RequestSpan>) {
        if !matches!(
            exchange.outcome,
            Outcome::Complete(_) | Outcome::Failed(_) | Outcome::Grpc(_)
        ) {
            return;
        }
        self.offered += 1;
        if let Some(turn) = turn {
            self.exchanges += 1;
            let error = LEAST_DISAGREEMENT.max(inferred(&exchange.waits) * INFERRED_ENDS);
            let fits = self.compare(exchange, turn, error);
            split(&mut self.splits, exchange, turn);
            if fits {
                rename::rename(exchange, turn, error);
            }
            split(self.named.get_or_insert_default(), exchange, turn);
            exchange.at_host = turn.stages().map(Box::new);
        }
    }

    /// Compares the server's time by packets with the host's. Returns true if packets leave enough
    /// time for what the host took.
    fn compare(&mut self, exchange: &Exchange, turn: &RequestSpan, error: Duration) -> bool {
        let host = turn.left().since(was_whole(turn));
        let packets = waited(exchange, |wait| KINDS.contains(&wait.kind));
        let propagation = waited(exchange, |wait| wait.kind == WaitKind::RoundTrip);
        let room = exchange.latency().saturating_sub(propagation);
        let beyond = packets.saturating_sub(host);
        let within = host.saturating_sub(room);
        let tallies = [(beyond, &mut self.beyond), (within, &mut self.within)];
        let shown = [packets, room];
        for (((excess, tally), said), shown) in tallies.into_iter().zip(&mut self.said).zip(shown) {
            if excess > error {
                tally.add(exchange, Cost::exactly(excess), Duration::ZERO);
                said.packets.record(shown);
                said.host.record(host);
            }
        }
        within <= error
    }

    /// Iterates over the kinds of wait by packets, each with its turns.
    pub(crate) fn splits(&self) -> impl Iterator<Item = (WaitKind, &Split)> + Clone {
        with_time(&self.splits)
    }

    /// Returns the number of exchanges with a notable wait of this kind, first by the packets, then
    /// by the kinds that the rules use.
    pub(crate) fn counts(&self, kind: WaitKind) -> [u64; 2] {
        let at = KINDS.iter().position(|&other| other == kind);
        let count = |splits: &Splits| {
            let split = at.and_then(|at| splits.get(at));
            split.map_or(0, |split| split.packets.count())
        };
        [count(&self.splits), self.named.as_deref().map_or(0, count)]
    }

    /// Iterates over the kinds of wait that the rules use, each with its turns.
    pub(crate) fn named(&self) -> impl Iterator<Item = (WaitKind, &Split)> + Clone {
        self.named.as_deref().into_iter().flat_map(with_time)
    }
}

fn with_time(splits: &Splits) -> impl Iterator<Item = (WaitKind, &Split)> + Clone {
    let all = KINDS.into_iter().zip(splits);
    all.filter(|(_, split)| !split.packets.is_empty())
}

fn split(splits: &mut Splits, exchange: &Exchange, turn: &RequestSpan) {
    let Some(stages) = turn.stages() else { return };
    if turn.delivered_last.since(turn.delivered) >= WORTH_SPLITTING {
        return;
    }
    for (kind, split) in KINDS.into_iter().zip(splits) {
        let packets = waited(exchange, |wait| wait.kind == kind);
        if packets >= WORTH_SPLITTING {
            split.packets.record(packets);
            split.host.record(at_host(kind, turn));
            for (all, took) in split.stages.iter_mut().zip(stages) {
                all.record(took);
            }
        }
    }
}

impl Split {
    /// Returns the share of the packets' time that these stages make up; may exceed 1, because
    /// stages cover the whole turn.
    pub(crate) fn share(&self, stages: &[Stage]) -> f64 {
        let meant = stages
            .iter()
            .filter_map(|&stage| self.stages.get(stage as usize));
        let sum: u128 = meant.map(Distribution::sum_ns).sum();
        sum as f64 / self.packets.sum_ns().max(1) as f64
    }

    /// Returns the share of the packets' time that the host took in total.
    pub(crate) fn host_share(&self) -> f64 {
        self.host.sum_ns() as f64 / self.packets.sum_ns().max(1) as f64
    }
}

fn at_host(kind: WaitKind, turn: &RequestSpan) -> Duration {
    match kind {
        WaitKind::ServerThink => until_first(turn),
        _ => after_first(turn),
    }
}

/// Returns the host's time until the response's first byte left.
fn until_first(turn: &RequestSpan) -> Duration {
    turn.sent.since(was_whole(turn)) + first_queued(turn)
}

/// Returns the host's time from the response's first byte to its last.
fn after_first(turn: &RequestSpan) -> Duration {
    turn.left().since(turn.sent + first_queued(turn))
}

/// Returns the time that the response's first segment spent in queueing disciplines.
fn first_queued(turn: &RequestSpan) -> Duration {
    turn.departure.unwrap_or_default().first_queued
}

/// Returns the time at which the host had the whole request, assuming that its last byte took as
/// long to reach TCP as its first.
fn was_whole(turn: &RequestSpan) -> Timestamp {
    turn.arrived + turn.delivered_last.since(turn.delivered)
}

fn waited(exchange: &Exchange, is_meant: impl Fn(&Wait) -> bool) -> Duration {
    let meant = exchange.waits.iter().filter(|wait| is_meant(wait));
    meant
        .map(Wait::duration)
        .fold(Duration::ZERO, Duration::saturating_add)
}

/// Returns the maximum error of an end of a wait.
fn inferred(waits: &[Wait]) -> Duration {
    let errors = waits.iter().filter_map(|wait| match wait.bound {
        Bound::Inferred(error) => Some(error),
        Bound::Observed => None,
    });
    errors.max().unwrap_or_default()
}
