//! The true cost of each wait of a run, by the clocks of its programs.

use std::collections::BTreeMap;

use lagtrace_core::registry::Id;

use super::diary::{AskedEntry, Served};
use super::fault::Fault;
use super::traffic::{Points, Traffic};
use crate::scenario::Culprit;

/// The bytes that a sender may have in flight at the beginning of a connection: ten segments. A pause
/// after fewer bytes delays everything behind it by its whole length.
const INITIAL_WINDOW: u64 = 13_000;

/// The size of requests that need more than one flight, in bytes.
const LONG_REQUEST: u32 = 13_000;

/// The time after which a connection has certainly lost a SYN: the kernel repeats it after a second.
const SYN_LOST_NS: u64 = 900_000_000;

/// One in so many requests is quicker than those which show the usual time on the path.
const QUICK: usize = 6;

/// The truth about a run.
#[derive(Clone, Debug, Default)]
pub struct StrangerTruth {
    /// The requests that begin within the capture.
    pub requests: Vec<TrueRequest>,
    /// The parts of their time, each with its cause.
    pub parts: Vec<Part>,
    /// Causes that may be named although nothing is wrong, because the traffic is like that.
    pub admitted: Vec<Id>,
    /// The number of connections that begin within the capture.
    pub connections: u64,
}

/// A request and where its time passed, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrueRequest {
    /// The time from the request's first byte to the response's last, at the client.
    pub total_ns: u64,
    /// The time at the server, from the request's first byte to the response's last.
    pub at_server_ns: u64,
    /// The time from the request's last byte to the response's first, at the server.
    pub think_ns: Span,
    /// The time on the server's host, by whomever it is caused.
    pub at_host_ns: Span,
    /// The time that is in no diary: a program that waits for its processor after its packets came.
    pub unseen_ns: u64,
    /// The time that the server is to blame for.
    pub server_ns: Span,
    /// The time that the client is to blame for.
    pub client_ns: Span,
    /// The time to connect, if the request has a new connection.
    pub connect_ns: u64,
    /// The size of the response, in bytes.
    pub bytes: u64,
}

/// A time that is known to be between two bounds, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The lower bound.
    pub low: u64,
    /// The upper bound.
    pub high: u64,
}

/// A part of the time of a run's requests.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// The name, in a word or two.
    pub name: &'static str,
    /// True if it is a fault that was drawn.
    pub is_fault: bool,
    /// The causes that name it rightly, the best first.
    pub causes: Vec<Id>,
    /// The parties that may be blamed for it.
    pub culprits: Vec<Culprit>,
    /// The time that each request would have saved without it.
    pub saved_ns: Vec<u64>,
    /// The bounds of the sum.
    pub sum_ns: Span,
    /// True if the time passes before the request, while its connection is made.
    pub is_setup: bool,
    /// True if no packet of the capture shows it.
    pub is_hidden: bool,
}

impl Span {
    const fn exact(ns: u64) -> Self {
        Self { low: ns, high: ns }
    }

    const fn at_most(ns: u64) -> Self {
        Self { low: 0, high: ns }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            low: self.low + other.low,
            high: self.high + other.high,
        }
    }
}

impl Part {
    /// Returns the likely cost over all requests.
    pub fn cost_ns(&self) -> u64 {
        self.saved_ns.iter().sum()
    }

    /// Returns the number of requests that the part makes at least a millisecond slower.
    pub fn affected(&self) -> u64 {
        self.saved_ns.iter().filter(|&&ns| ns >= 1_000_000).count() as u64
    }
}

/// The rows of one request: the client's, the server's, and that of the service that the server asks.
type Rows = (AskedEntry, Served, Option<Served>);

impl StrangerTruth {
    /// Computes the truth of the requests that begin at `from_ns` or later.
    pub(super) fn of(
        traffic: &Traffic,
        asked: &[AskedEntry],
        served: &[Served],
        upstream: &[Served],
        from_ns: u64,
    ) -> Self {
        let by_id = |rows: &[Served]| -> BTreeMap<u64, Served> {
            rows.iter().map(|row| (row.id, *row)).collect()
        };
        let (served, upstream) = (by_id(served), by_id(upstream));
        let within = asked.iter().filter(|row| row.send_ns >= from_ns);
        let rows: Vec<Rows> = within
            .filter_map(|row| Some((*row, *served.get(&row.id)?, upstream.get(&row.id).copied())))
            .collect();
        let sums = Sums::new(traffic);
        let begins = |row: &&AskedEntry| row.connect_ns.is_some_and(|(begin, _)| begin >= from_ns);
        Self {
            requests: rows.iter().map(|rows| sums.request(rows)).collect(),
            parts: sums.parts(&rows),
            admitted: admitted(traffic),
            connections: asked.iter().filter(begins).count() as u64,
        }
    }
}

/// Returns the causes that are properties of healthy traffic.
fn admitted(traffic: &Traffic) -> Vec<Id> {
    let mut causes = vec![
        Id::PathDistance,
        Id::ChattyRoundTrips,
        Id::DelayedAckHarmless,
        Id::ClientThink,
        Id::TimeInServer,
        Id::TimeInClient,
        Id::TimeOnPath,
        Id::TimeInSetup,
        Id::TimeUnknown,
    ];
    if traffic.talk.request.1.max(traffic.talk.response.1) > 12_000 {
        causes.extend([
            Id::SlowStart,
            Id::SlowStartAfterIdle,
            Id::LowCongestionWindow,
        ]);
        // Linux opens the receive window as the sender's window grows, and not always in time.
        causes.push(Id::ReceiveWindow);
    }
    if traffic.client.parts.max(traffic.server.parts) > 2 {
        causes.push(Id::TinyWrites);
    }
    causes
}

/// The properties of a run from which the parts of all requests are computed.
struct Sums<'a> {
    traffic: &'a Traffic,
    round_trip_ns: u64,
    has_nagle: bool,
    holds_requests: bool,
    reads_slowly: bool,
}

impl<'a> Sums<'a> {
    fn new(traffic: &'a Traffic) -> Self {
        let has = |wanted: fn(&Fault) -> bool| traffic.faults.iter().any(wanted);
        Self {
            traffic,
            round_trip_ns: u64::try_from(traffic.round_trip.as_nanos()).unwrap_or(u64::MAX),
            has_nagle: has(|fault| matches!(fault, Fault::Nagle)),
            holds_requests: has(|fault| matches!(fault, Fault::NagleRequest)),
            reads_slowly: has(|fault| matches!(fault, Fault::SlowReader { .. })),
        }
    }

    /// Returns the time for which the second part of a response was held.
    fn held(&self, (asked, served, _): &Rows) -> u64 {
        let apart = asked.last_ns.saturating_sub(asked.first_ns);
        if self.has_nagle {
            apart.saturating_sub(served.paused_ns)
        } else {
            0
        }
    }

    /// Returns the time for which the second part of a request was held.
    fn held_request(&self, (asked, served, _): &Rows) -> u64 {
        let apart = served.whole_ns.saturating_sub(served.first_ns);
        if self.holds_requests {
            apart.saturating_sub(asked.paused_ns)
        } else {
            0
        }
    }

    fn request(&self, rows: &Rows) -> TrueRequest {
        let (asked, served, _) = rows;
        let unseen_ns = self.unseen(rows);
        let wakes = Span::at_most(unseen_ns);
        let think_ns = Span::exact(served.write_ns.saturating_sub(served.whole_ns)).plus(wakes);
        let paused = if asked.bytes > INITIAL_WINDOW {
            Span::at_most(served.paused_ns)
        } else {
            Span::exact(served.paused_ns)
        };
        let held = self.held_request(rows);
        let at_host_ns = think_ns.plus(paused).plus(Span::at_most(held));
        let mut server_ns = think_ns.plus(Span::exact(self.held(rows))).plus(paused);
        let mut client_ns = Span::exact(asked.paused_ns + held).plus(wakes);
        let transfer = asked.last_ns.saturating_sub(asked.first_ns);
        if self.reads_slowly {
            client_ns.high += transfer;
        }
        if asked.bytes > INITIAL_WINDOW {
            // While a window grows, either end's kernel may be the one that limits it.
            server_ns.high += transfer;
            client_ns.high += transfer;
        }
        if self.has_long_requests() {
            let transfer = served.whole_ns.saturating_sub(served.first_ns);
            server_ns.high += transfer;
            client_ns.high += transfer;
        }
        TrueRequest {
            total_ns: asked.last_ns.saturating_sub(asked.send_ns),
            at_server_ns: served.written_ns.saturating_sub(served.first_ns) + self.held(rows),
            think_ns,
            at_host_ns,
            unseen_ns,
            server_ns,
            client_ns,
            connect_ns: connect(asked),
            bytes: asked.bytes,
        }
    }

    /// Returns the time in which a request's connection was made, without lost SYNs.
    fn connecting(&self, asked: &AskedEntry) -> u64 {
        let took = connect(asked);
        if took < SYN_LOST_NS {
            took
        } else {
            self.round_trip_ns
        }
    }

    /// Returns the time of a request on the path beyond one round trip.
    fn excess(&self, rows: &Rows) -> u64 {
        let (asked, served, _) = rows;
        let others = [
            served.write_ns.saturating_sub(served.whole_ns),
            self.held(rows),
            self.held_request(rows),
            asked.paused_ns,
            served.paused_ns,
            self.round_trip_ns,
        ];
        let total = asked.last_ns.saturating_sub(asked.send_ns);
        total.saturating_sub(others.iter().sum())
    }

    /// Returns how much of a request's time may have passed between the arrival of its packets and
    /// the programs that wait for them. Nothing else takes time on a path without a fault, if the
    /// messages are short.
    fn unseen(&self, rows: &Rows) -> u64 {
        let (asked, served, _) = rows;
        if asked.bytes <= INITIAL_WINDOW && !self.has_bad_path() {
            return self.excess(rows);
        }
        // A request has to be read, and a new connection to be accepted before.
        let arrives = asked.send_ns + self.round_trip_ns / 2;
        let is_late_by_host = !self.has_bad_path() && !self.has_long_requests();
        if is_late_by_host || asked.connect_ns.is_some() {
            served.first_ns.saturating_sub(arrives)
        } else {
            0
        }
    }

    fn has_long_requests(&self) -> bool {
        self.traffic.talk.request.1 > LONG_REQUEST
    }

    fn has_bad_path(&self) -> bool {
        let mut faults = self.traffic.faults.iter();
        faults.any(|fault| {
            matches!(
                fault,
                Fault::Loss { .. } | Fault::Rate { .. } | Fault::Jitter { .. }
            )
        })
    }

    fn parts(&self, rows: &[Rows]) -> Vec<Part> {
        let mut parts = self.usual(rows);
        for fault in &self.traffic.faults {
            parts.push(self.part(*fault, rows));
        }
        parts
    }

    /// Returns the parts that healthy traffic has.
    fn usual(&self, rows: &[Rows]) -> Vec<Part> {
        // What a program does besides sleeping is its think time too.
        let think = |(_, served, _): &Rows| {
            let others = served.extra_ns + served.upstream_ns;
            served.write_ns.saturating_sub(served.taken_ns + others)
        };
        let calls = |(_, served, upstream): &Rows| {
            let extra = upstream.map_or(0, |row| row.extra_ns);
            served.upstream_ns.saturating_sub(extra)
        };
        let mut parts = vec![
            of("think", &[Id::ServerThink], &[Culprit::Server], rows, think),
            of(
                "calls",
                &[Id::DownstreamWait, Id::ServerThink],
                &[Culprit::Server],
                rows,
                calls,
            ),
            of(
                "distance",
                &[Id::PathDistance],
                &[Culprit::Path],
                rows,
                |_| self.round_trip_ns,
            ),
        ];
        let unseen = rows.iter().map(|rows| self.unseen(rows)).sum();
        parts.push(Part {
            sum_ns: Span::at_most(unseen),
            ..of(
                "waking",
                &[Id::ServerThink, Id::DownstreamWait, Id::WorkerSaturation],
                &[Culprit::Server],
                rows,
                |_| 0,
            )
        });
        let connects = of(
            "connecting",
            &[Id::ConnectionNotReused],
            &[Culprit::Client, Culprit::Server],
            rows,
            |(asked, ..)| self.connecting(asked),
        );
        if self.traffic.talk.is_fresh {
            let whole = rows.iter().map(|(asked, ..)| connect(asked)).sum();
            parts.push(Part {
                is_setup: true,
                sum_ns: Span::at_most(whole),
                ..connects
            });
        }
        if !self.reads_slowly && !self.has_bad_path() {
            let causes = [
                Id::SlowStart,
                Id::SlowStartAfterIdle,
                Id::LowCongestionWindow,
            ];
            let culprits = [Culprit::Path, Culprit::Server, Culprit::Client];
            parts.push(of("transfer", &causes, &culprits, rows, |rows| {
                self.excess(rows)
            }));
        }
        parts
    }

    /// Returns the part of a fault.
    fn part(&self, fault: Fault, rows: &[Rows]) -> Part {
        let (server, client) = ([Culprit::Server], [Culprit::Client]);
        let mut part = match fault {
            Fault::SlowThink { .. } => of(
                "slow think",
                &[Id::ServerThink],
                &server,
                rows,
                |(_, served, _)| served.extra_ns,
            ),
            Fault::ServerPause { .. } => of(
                "pause",
                &[Id::ServerPause],
                &server,
                rows,
                |(_, served, _)| served.paused_ns,
            ),
            Fault::Nagle => of(
                "nagle",
                &[Id::NagleDelayedAck, Id::NagleRoundTrip],
                &server,
                rows,
                |rows| self.held(rows),
            ),
            Fault::NagleRequest => of(
                "nagle request",
                &[Id::NagleDelayedAckRequest, Id::NagleRoundTrip],
                &client,
                rows,
                |rows| self.held_request(rows),
            ),
            Fault::SlowReader { .. } => of(
                "slow reader",
                &[Id::ReceiveWindow, Id::ZeroWindow],
                &client,
                rows,
                |(asked, ..)| asked.last_ns.saturating_sub(asked.first_ns),
            ),
            Fault::SlowSender { .. } => of(
                "slow sender",
                &[Id::SlowRequestUpload],
                &client,
                rows,
                |(asked, ..)| asked.paused_ns,
            ),
            Fault::FewWorkers { .. } => of(
                "few workers",
                &[Id::WorkerSaturation, Id::ServerThink],
                &server,
                rows,
                |(_, served, _)| served.taken_ns.saturating_sub(served.whole_ns),
            ),
            Fault::SlowUpstream { .. } => of(
                "slow upstream",
                &[Id::DownstreamWait, Id::ServerThink],
                &server,
                rows,
                |(_, _, upstream)| upstream.map_or(0, |row| row.extra_ns),
            ),
            Fault::Loss { .. } => self.beyond_usual(
                "loss",
                &[
                    Id::PacketLoss,
                    Id::RetransmissionTimeout,
                    Id::FastRetransmit,
                    Id::TailLossProbe,
                    Id::LostRetransmission,
                    Id::SynLoss,
                ],
                rows,
            ),
            Fault::Rate { .. } => of(
                "rate",
                // A queue in front of a slow link also overflows.
                &[
                    Id::BandwidthLimit,
                    Id::PathQueueing,
                    Id::Policer,
                    Id::PacketLoss,
                    Id::FastRetransmit,
                    Id::RetransmissionTimeout,
                    Id::TailLossProbe,
                    Id::LostRetransmission,
                ],
                &[Culprit::Path],
                rows,
                |rows| self.excess(rows),
            ),
            Fault::Jitter { .. } => self.beyond_usual(
                "jitter",
                &[Id::PathJitter, Id::PathQueueing, Id::PathDistance],
                rows,
            ),
            Fault::Closes => of(
                "closes",
                &[Id::ConnectionNotReused],
                &[Culprit::Server, Culprit::Client],
                rows,
                |(asked, ..)| self.connecting(asked),
            ),
            Fault::LostSyns { .. } => of(
                "lost syns",
                &[Id::SynLoss],
                &[Culprit::Path],
                rows,
                |(asked, ..)| connect(asked) - self.connecting(asked),
            ),
        };
        part.is_fault = true;
        part.is_setup = fault.opens_connections();
        // A SYN that is lost on its way never reaches the server, and no capture there knows how long
        // packets were under way.
        part.is_hidden = matches!(fault, Fault::LostSyns { .. } | Fault::Jitter { .. })
            && self.traffic.view.points == Points::Server;
        if fault == Fault::Closes {
            // A connection that is used again loses no SYN either, but has to be made once.
            part.sum_ns.high = rows.iter().map(|(asked, ..)| connect(asked)).sum();
            let mut made: Vec<u64> = part.saved_ns.clone();
            made.sort_unstable();
            let once = made.iter().rev().take(self.traffic.talk.connections.into());
            part.sum_ns.low -= once.sum::<u64>();
        }
        if matches!(fault, Fault::Loss { .. } | Fault::Jitter { .. }) {
            part.sum_ns.high = rows.iter().map(|rows| self.excess(rows)).sum();
        }
        part.sum_ns.low = match fault {
            // How much of it is due to the fault, and how much to the usual growth of a window or to
            // the queue in front of a link, is not in a diary.
            Fault::Loss { .. } | Fault::Rate { .. } | Fault::Jitter { .. } => part.cost_ns() / 3,
            Fault::SlowReader { .. } => 0,
            Fault::ServerPause { .. } if self.traffic.talk.response.1 > 12_000 => 0,
            Fault::SlowSender { .. } if self.traffic.talk.request.1 > 12_000 => 0,
            _ => part.sum_ns.low,
        };
        part
    }

    /// Returns the time that requests took longer on the path than the quicker ones of about their
    /// size.
    fn beyond_usual(&self, name: &'static str, causes: &[Id], rows: &[Rows]) -> Part {
        let class = |rows: &Rows| rows.0.bytes.max(1).ilog2();
        let mut times: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for rows in rows {
            times
                .entry(class(rows))
                .or_default()
                .push(self.excess(rows));
        }
        let usual: BTreeMap<u32, u64> = times
            .into_iter()
            .map(|(class, mut times)| {
                times.sort_unstable();
                (class, times[times.len() / QUICK])
            })
            .collect();
        of(name, causes, &[Culprit::Path], rows, |rows| {
            let usual = usual.get(&class(rows)).copied().unwrap_or_default();
            self.excess(rows).saturating_sub(usual)
        })
    }
}

/// Returns the time in which a request's connection was made; 0 if it has none of its own.
fn connect(asked: &AskedEntry) -> u64 {
    asked
        .connect_ns
        .map_or(0, |(begin, end)| end.saturating_sub(begin))
}

fn of(
    name: &'static str,
    causes: &[Id],
    culprits: &[Culprit],
    rows: &[Rows],
    saved: impl Fn(&Rows) -> u64,
) -> Part {
    let saved_ns: Vec<u64> = rows.iter().map(saved).collect();
    Part {
        name,
        is_fault: false,
        causes: causes.to_vec(),
        culprits: culprits.to_vec(),
        sum_ns: Span::exact(saved_ns.iter().sum()),
        saved_ns,
        is_setup: false,
        is_hidden: false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: u64 = 1_000_000;

    fn rows(id: u64, extra_ms: u64) -> (AskedEntry, Served) {
        let begun = 1_000 * MS + id * 100 * MS;
        let served = Served {
            id,
            first_ns: begun + MS,
            whole_ns: begun + MS,
            taken_ns: begun + MS,
            think_ns: 2 * MS,
            extra_ns: extra_ms * MS,
            upstream_ns: 0,
            write_ns: begun + (3 + extra_ms) * MS,
            written_ns: begun + (3 + extra_ms) * MS,
            paused_ns: 0,
        };
        let asked = AskedEntry {
            id,
            send_ns: begun,
            sent_ns: begun,
            first_ns: begun + (4 + extra_ms) * MS,
            last_ns: begun + (4 + extra_ms) * MS,
            ..AskedEntry::default()
        };
        (asked, served)
    }

    fn traffic(faults: Vec<Fault>) -> Traffic {
        Traffic {
            faults,
            round_trip: Duration::from_millis(2),
            ..Traffic::draw(1)
        }
    }

    #[test]
    fn a_slow_class_costs_what_it_slept() {
        let share = 0.5;
        let extra = Duration::from_millis(30);
        let traffic = traffic(vec![Fault::SlowThink { share, extra }]);
        let (asked, served): (Vec<_>, Vec<_>) = [rows(0, 0), rows(1, 30)].into_iter().unzip();
        let truth = StrangerTruth::of(&traffic, &asked, &served, &[], 0);
        let part = truth
            .parts
            .iter()
            .find(|part| part.is_fault)
            .expect("a fault");
        assert_eq!((part.cost_ns(), part.affected()), (30 * MS, 1));
        assert_eq!(truth.requests[1].server_ns, Span::exact(32 * MS));
        assert_eq!(truth.requests[1].unseen_ns, 0);
        assert_eq!(truth.requests[0].total_ns, 4 * MS);
    }

    #[test]
    fn requests_before_the_capture_do_not_count() {
        let (asked, served): (Vec<_>, Vec<_>) = [rows(0, 0), rows(1, 0)].into_iter().unzip();
        let truth = StrangerTruth::of(&traffic(Vec::new()), &asked, &served, &[], 1_050 * MS);
        assert_eq!(truth.requests.len(), 1);
        assert!(truth.parts.iter().all(|part| !part.is_fault));
    }
}
