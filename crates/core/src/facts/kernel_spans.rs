//! Request spans by service. A span is one request and its response, timed by the server's kernel;
//! `turn` means the same.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::observed::flow::Endpoint;
use crate::observed::kernel_span::{Asked, RequestSpan, Stage, WatchTally};
use crate::observed::time::Timestamp;
use crate::service::tally::Tally;
use crate::stats::histogram::Distribution;

/// Maximum number of services kept.
const MAX_SERVICES: usize = 512;
/// Maximum number of programs recorded for each service.
const MAX_PROGRAMS: usize = 16;
/// Maximum number of upstream services kept for each service.
const MAX_ASKED: usize = 32;

/// Maximum number of [`Act`]s kept for each service. Rules compare their times.
const MAX_ACTS: usize = 8192;

/// The times of one request in the thread that handled it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Act {
    pub(crate) delivered: Timestamp,
    pub(crate) read: Timestamp,
    pub(crate) written: Timestamp,
    pub(crate) written_last: Timestamp,
    pub(crate) tid: u32,
    /// Time for which the thread was runnable without a processor before the read; `None` if that
    /// was not observed.
    pub(crate) queued_unread: Option<Duration>,
    /// Time for which the thread slept between the read and the write; `None` if that was not
    /// observed.
    pub(crate) slept: Option<Duration>,
}

impl Act {
    fn of(turn: &RequestSpan) -> Option<Self> {
        let written = turn.written?;
        Some(Self {
            delivered: turn.delivered,
            read: turn.read?,
            written,
            written_last: turn.written_last.unwrap_or(written),
            tid: turn.program.as_ref()?.tid,
            queued_unread: turn.thread.map(|thread| thread.queued_unread),
            slept: turn.thread.map(|thread| thread.slept),
        })
    }
}

/// The requests that the kernel timed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    pub(crate) services: BTreeMap<Endpoint, ServiceTurns>,
    pub(crate) tally: Option<WatchTally>,
    /// Durations of the requests on connections on which requests overtake each other. The kernel
    /// does not count these.
    pub(crate) streams: Distribution,
    /// True if the kernel reported passages of such connections.
    pub(crate) has_passages: bool,
    /// True if a request on such a connection was read, even if only in part.
    pub(crate) has_streams: bool,
}

/// A request of a watched connection on which requests overtake each other.
#[derive(Clone, Debug)]
pub(crate) struct WatchedStream {
    /// The duration of the request; `None` if it was cut.
    pub(crate) latency: Option<Duration>,
    /// The span of the request; `None` if the kernel's passages do not show when its bytes passed.
    pub(crate) span: Option<RequestSpan>,
}

/// The recorded turns of one service.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceTurns {
    pub(crate) turns: u64,
    /// Number of turns whose stages are known.
    pub(crate) staged: u64,
    pub(crate) latency: Distribution,
    /// The times from the first segment of the response to the last.
    pub(crate) responding: Distribution,
    /// Number of turns for which the thread's times are known.
    pub(crate) threaded: u64,
    /// Times at each stage, in the order of [`RequestSpan::STAGES`].
    pub(crate) stages: [Distribution; RequestSpan::STAGES.len()],
    /// The times for which the first segments of responses waited in queueing disciplines, if
    /// observed.
    pub(crate) first_queued: Distribution,
    /// The turns in which the kernel dropped a part of the request because the socket was out of
    /// memory.
    pub(crate) refused: Tally,
    /// The first turns, as single entries.
    pub(crate) acts: Vec<Act>,
    /// The calls of other services during the turns, by the called service.
    pub(crate) asked: BTreeMap<Option<Endpoint>, AskedCalls>,
    /// The total time for which Nagle's algorithm held data in a turn, for the turns in which it
    /// did.
    pub(crate) held: Distribution,
    /// Number of times that Nagle's algorithm held data, and number of those holds during which a
    /// packet arrived before the data was sent.
    pub(crate) holds: u64,
    pub(crate) after_arrival: u64,
    /// Name (`comm`) and process id of each program that read requests.
    pub(crate) programs: BTreeSet<(String, u32)>,
}

/// The calls of one service during turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct AskedCalls {
    /// The time of each turn's calls together.
    pub(crate) time: Distribution,
    /// Total of the round trips to the service, as far as its sockets show them.
    pub(crate) way: Duration,
    /// Total of the times for which SYNs or datagrams got no answer.
    pub(crate) silent: Duration,
    pub(crate) calls: u64,
    /// Number of connections that were made for turns.
    pub(crate) connections: u64,
}

impl AskedCalls {
    fn add_turn(&mut self, asked: &Asked) {
        self.time.record(asked.time);
        self.way = self.way.saturating_add(asked.way);
        self.silent = self.silent.saturating_add(asked.silent);
        self.calls += u64::from(asked.calls);
        self.connections += u64::from(asked.connections);
    }
}

impl Turns {
    /// Returns the number of packets of the watched ports that their host dropped for this reason.
    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        let drops = self.tally.iter().flat_map(|tally| &tally.drops);
        let meant = drops.filter(|(dropped_for, _)| dropped_for == reason);
        meant.map(|(_, packets)| packets).sum()
    }

    /// Returns the number of requests that each recorded turn represents: 1 divided by the sampled
    /// share.
    pub(crate) fn each_for(&self) -> f64 {
        let share = self.tally.as_ref().map(|tally| tally.sampled_share);
        share
            .filter(|share| *share > 0.0)
            .map_or(1.0, |share| 1.0 / share.min(1.0))
    }

    pub(crate) fn add_stream(&mut self, stream: &WatchedStream) {
        self.has_streams = true;
        if let Some(latency) = stream.latency {
            self.streams.record(latency);
        }
        if let Some(span) = &stream.span {
            self.add_turn(span);
        }
    }

    pub(crate) fn add_turn(&mut self, turn: &RequestSpan) {
        let is_known = self.services.contains_key(&turn.local);
        if !is_known && self.services.len() >= MAX_SERVICES {
            return;
        }
        self.services.entry(turn.local).or_default().add_turn(turn);
    }
}

impl ServiceTurns {
    /// Returns the times that the turns spent in `stage`.
    pub(crate) fn stage(&self, stage: Stage) -> &Distribution {
        // The array has one entry for each variant of `Stage`.
        #[allow(clippy::indexing_slicing)]
        &self.stages[stage as usize]
    }

    /// Returns the server's mean number of concurrent requests over the time in which it had any.
    /// It is at least 1.
    pub(crate) fn side_by_side(&self) -> f64 {
        let mut spans: Vec<_> = self
            .acts
            .iter()
            .map(|act| (act.delivered, act.written_last))
            .collect();
        spans.sort_unstable();
        let (mut sum, mut any, mut until) = (Duration::ZERO, Duration::ZERO, None);
        for (begin, end) in spans {
            sum += end.since(begin);
            any += end.since(until.map_or(begin, |until: Timestamp| until.max(begin)));
            until = until.max(Some(end));
        }
        sum.as_secs_f64().max(f64::EPSILON) / any.as_secs_f64().max(f64::EPSILON)
    }

    fn add_turn(&mut self, turn: &RequestSpan) {
        self.turns += 1;
        self.latency.record(turn.duration());
        self.responding.record(turn.left().since(turn.sent));
        if let Some(stages) = turn.stages() {
            self.staged += 1;
            for (all, took) in self.stages.iter_mut().zip(stages) {
                all.record(took);
            }
            // Whole and parts are those of the same turns.
            if let Some(departure) = turn.departure {
                self.first_queued.record(departure.first_queued);
            }
            if let Some(asked) = &turn.asked {
                let is_known = self.asked.contains_key(&asked.whom);
                if is_known || self.asked.len() < MAX_ASKED {
                    self.asked.entry(asked.whom).or_default().add_turn(asked);
                }
            }
        }
        if self.acts.len() < MAX_ACTS {
            self.acts.extend(Act::of(turn));
        }
        if let Some(at) = turn.refused {
            self.refused.add_turn(turn, turn.delivered_last.since(at));
        }
        self.threaded += u64::from(turn.thread.is_some());
        if turn.held.times > 0 {
            self.held.record(turn.held.total);
            self.holds += u64::from(turn.held.times);
            self.after_arrival += u64::from(turn.held.after_arrival);
        }
        if let Some(program) = &turn.program
            && self.programs.len() < MAX_PROGRAMS
        {
            self.programs.insert((program.name.clone(), program.pid));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_side_by_side_are_counted_while_there_are_any() {
        let act = |from: i64, to: i64| {
            let at = |millis: i64| Timestamp::from_nanos(millis * 1_000_000);
            Act {
                delivered: at(from),
                read: at(from),
                written: at(to),
                written_last: at(to),
                tid: 1,
                queued_unread: None,
                slept: None,
            }
        };
        let side_by_side = |acts: &[Act]| {
            let turns = ServiceTurns {
                acts: acts.to_vec(),
                ..ServiceTurns::default()
            };
            (turns.side_by_side() * 100.0).round() as u32
        };
        assert_eq!(side_by_side(&[act(0, 10), act(50, 60)]), 100);
        assert_eq!(side_by_side(&[act(50, 60), act(0, 40), act(0, 30)]), 160);
        assert_eq!(side_by_side(&[act(0, 10), act(2, 8), act(8, 12)]), 167);
        assert_eq!(side_by_side(&[]), 100);
    }
}
