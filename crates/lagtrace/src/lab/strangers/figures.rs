//! The figures of a report, compared with the programs' clocks.

use lagtrace_core::exchange::wait::{Owner, WaitKind};
use lagtrace_core::report::{Account, Finding, Report, Unit};
use lagtrace_lab::stranger::{Fault, Part, Points, Span, StrangerRecording, TrueRequest};
use serde::Serialize;

/// The share and the time per request by which a figure may be off.
const SHARE: f64 = 0.10;
const EACH_NS: f64 = 1e6;

/// The number of requests by which a count may be off, in addition to the share.
const FEW: f64 = 2.0;

/// Minimum number of requests for a 99th percentile.
const LEAST_FOR_TAIL: usize = 300;

/// The largest response that leaves its server at once.
const SHORT: u64 = 13_000;

/// The largest number of causes of a fault that delays requests in one way.
const EACH_WAY: usize = 2;

/// The end of the name of the service under test.
const PORT: &str = ":7700";

/// A figure of the report, and the bounds between which it is true.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sentence {
    /// The figure.
    pub(super) what: String,
    /// The value in the report: ns or a number.
    pub(super) said: f64,
    /// The true value lies between these bounds.
    pub(super) low: f64,
    pub(super) high: f64,
    /// The distance from these bounds within which the value still counts as true.
    pub(super) tolerance: f64,
}

impl Sentence {
    pub(super) fn is_true(&self) -> bool {
        self.said >= self.low - self.tolerance && self.said <= self.high + self.tolerance
    }

    /// Returns true if the sentence is about the cost of a finding.
    pub(super) fn is_cost(&self) -> bool {
        self.what.starts_with("cost ")
    }

    /// Returns a time, which may be off by a share or by a millisecond for each of `count` requests.
    fn time(what: impl Into<String>, said: f64, low: f64, high: f64, count: f64) -> Self {
        Self {
            what: what.into(),
            said,
            low,
            high,
            tolerance: (SHARE * high).max(EACH_NS * count),
        }
    }

    fn number(what: impl Into<String>, said: f64, low: f64, high: f64, tolerance: f64) -> Self {
        Self {
            what: what.into(),
            said,
            low,
            high,
            tolerance,
        }
    }
}

/// Returns a quantile of times, 0 if there are none.
pub(super) fn quantile(times: &[u64], at: f64) -> u64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    let index = (at * last as f64).round() as usize;
    times.get(index.min(last)).copied().unwrap_or_default()
}

/// Compares every figure that the truth knows.
pub(super) fn judge(recorded: &StrangerRecording, report: &Report) -> Vec<Sentence> {
    let view = View::of(recorded, report);
    let mut sentences = view.counts();
    if view.count > 0.0 {
        sentences.extend(view.latencies());
        sentences.extend(view.owners());
        sentences.extend(view.places());
        for finding in report.causes() {
            sentences.extend(view.finding(finding));
        }
        for place in report.places() {
            sentences.extend(view.place(place));
        }
    }
    sentences
}

/// A run and its report.
struct View<'a> {
    recorded: &'a StrangerRecording,
    report: &'a Report,
    requests: &'a [TrueRequest],
    /// The number of requests.
    count: f64,
    /// The account of the service under test, if the report has one.
    account: Option<&'a Account>,
    /// True if the report is about this service only.
    is_alone: bool,
    is_at_server: bool,
}

impl<'a> View<'a> {
    fn of(recorded: &'a StrangerRecording, report: &'a Report) -> Self {
        let mut accounts = report.account.iter();
        let requests = &recorded.truth.requests;
        Self {
            recorded,
            report,
            requests,
            count: requests.len() as f64,
            account: accounts.find(|account| account.service.ends_with(PORT)),
            is_alone: report.account.len() <= 1,
            is_at_server: recorded.traffic.view.points == Points::Server,
        }
    }

    /// Judges the numbers of requests and connections.
    fn counts(&self) -> Vec<Sentence> {
        let exchanges = &self.report.exchanges;
        let said = match self.account {
            Some(account) if !self.is_alone => account.requests,
            _ => exchanges.count,
        };
        let off = self.cut();
        let is_joined = off > 0.0;
        let mut sentences = vec![Sentence::number(
            "requests",
            said as f64,
            self.count,
            self.count,
            off,
        )];
        if self.is_alone && !is_joined {
            let truth = self.recorded.truth.connections as f64;
            let said = self.report.setups.count as f64;
            sentences.push(Sentence::number("connections", said, truth, truth, 0.0));
        }
        sentences
    }

    /// Returns the number of requests that a capture cuts which begins midway: at most one of each
    /// connection.
    fn cut(&self) -> f64 {
        let traffic = &self.recorded.traffic;
        if traffic.view.skipped_percent == 0 {
            return 0.0;
        }
        f64::from(traffic.talk.connections) + 1.0
    }

    /// Returns the bounds of the time of each request at the point of the capture.
    fn times(&self) -> (Vec<u64>, Vec<u64>) {
        let bounds = |request: &TrueRequest| {
            let reads = request.client_ns.high - request.client_ns.low;
            let slack = reads.max(request.unseen_ns);
            let low = request.total_ns.saturating_sub(slack);
            if !self.is_at_server {
                return (low, request.total_ns);
            }
            // A long response leaves the server's kernel later than its program, and a lost one again.
            if request.bytes > SHORT || self.has_loss() {
                (request.at_server_ns, request.total_ns)
            } else {
                let wakes = request.at_server_ns + request.unseen_ns;
                (request.at_server_ns, wakes)
            }
        };
        self.requests.iter().map(bounds).unzip()
    }

    fn has_loss(&self) -> bool {
        let mut faults = self.recorded.traffic.faults.iter();
        faults.any(|fault| matches!(fault, Fault::Loss { .. }))
    }

    fn latencies(&self) -> Vec<Sentence> {
        if !self.is_alone {
            return Vec::new();
        }
        let said = &self.report.exchanges.latency_ns;
        let (low, high) = self.times();
        let mean = |times: &[u64]| times.iter().sum::<u64>() as f64 / self.count;
        let mut sentences = vec![Sentence::time(
            "mean latency",
            said.mean as f64,
            mean(&low),
            mean(&high),
            1.0,
        )];
        let mut quantiles = vec![("median latency", said.p50, 0.47, 0.53)];
        if self.requests.len() >= LEAST_FOR_TAIL {
            quantiles.push(("p99 latency", said.p99, 0.982, 0.998));
        }
        for (what, said, from, to) in quantiles {
            let (from, to) = (quantile(&low, from), quantile(&high, to));
            sentences.push(Sentence::time(
                what,
                said as f64,
                from as f64,
                to as f64,
                1.0,
            ));
        }
        sentences
    }

    fn sum(&self, of: impl Fn(&TrueRequest) -> Span) -> (f64, f64) {
        let spans = || self.requests.iter().map(&of);
        let low: u64 = spans().map(|span| span.low).sum();
        let high: u64 = spans().map(|span| span.high).sum();
        (low as f64, high as f64)
    }

    /// Judges the time of each owner, and the server's think time.
    fn owners(&self) -> Vec<Sentence> {
        let Some(account) = self.account else {
            return Vec::new();
        };
        let said = |is_it: &dyn Fn(&lagtrace_core::report::Booking) -> bool| {
            let bookings = account.exchanges.iter().filter(|booking| is_it(booking));
            bookings.map(|booking| booking.booked_ns).sum::<u64>() as f64
        };
        // Time that the report calls unexplained is no false sentence about its owner.
        let unknown = said(&|booking| booking.owner == Owner::Unknown);
        let thinks = said(&|booking| booking.kind == WaitKind::ServerThink);
        let (low, high) = self.sum(|request| request.think_ns);
        let mut sentences = vec![Sentence::time(
            "server's think time",
            thinks,
            low - unknown,
            high,
            self.count,
        )];
        let owner = |owner: Owner| said(&|booking| booking.owner == owner);
        let sums = [
            (
                "server's time",
                Owner::Server,
                self.sum(|request| request.server_ns),
            ),
            (
                "client's time",
                Owner::Client,
                self.sum(|request| request.client_ns),
            ),
        ];
        for (what, whose, (low, high)) in sums {
            sentences.push(Sentence::time(what, owner(whose), low, high, self.count));
        }
        if !self.is_at_server {
            let (low, high) = self.sum(|request| {
                let others = |span: u64| request.total_ns.saturating_sub(span);
                Span {
                    low: others(request.server_ns.high + request.client_ns.high),
                    high: others(request.server_ns.low + request.client_ns.low),
                }
            });
            let path = owner(Owner::Path);
            sentences.push(Sentence::time(
                "path's time",
                path,
                low - unknown,
                high,
                self.count,
            ));
        }
        sentences
    }

    /// Judges the places of a joint view of two captures.
    fn places(&self) -> Vec<Sentence> {
        let Some(joined) = self.report.joined.as_ref().filter(|_| self.is_alone) else {
            return Vec::new();
        };
        let places = joined.places.iter();
        let said = places.filter(|place| place.place == "server-host");
        let said: u64 = said.map(|place| place.total_ns).sum();
        let (low, high) = self.sum(|request| request.at_host_ns);
        vec![Sentence::time(
            "server-host's time",
            said as f64,
            low,
            high,
            self.count,
        )]
    }

    /// Returns the parts that a finding names rightly.
    fn parts(&self, finding: &'a Finding) -> impl Iterator<Item = &'a Part> {
        let parts = self.recorded.truth.parts.iter();
        parts.filter(|part| part.causes.contains(&finding.cause))
    }

    /// Judges the cost, the count and the prediction of a finding.
    fn finding(&self, finding: &'a Finding) -> Vec<Sentence> {
        let parts: Vec<&Part> = self.parts(finding).collect();
        let is_ours = finding.service.ends_with(PORT) && finding.unit == Unit::Requests;
        if parts.is_empty() || !is_ours {
            return Vec::new();
        }
        let name = finding.cause.as_str();
        let affected = finding.affected.exchanges as f64;
        let faults = || parts.iter().filter(|part| part.is_fault);
        let low: u64 = faults().map(|part| part.sum_ns.low).sum();
        let high: u64 = parts.iter().map(|part| part.sum_ns.high).sum();
        let cost = finding.cost_ns as f64;
        let what = format!("cost of {name}").replace("cost of", "cost");
        let mut sentences = vec![Sentence::time(
            what,
            cost,
            low as f64,
            high as f64,
            affected,
        )];
        // Each request is affected that has a connection of its own, however quickly it is there.
        let connects = parts.iter().any(|part| part.is_setup);
        let saved = |request: usize, is_fault: bool| -> u64 {
            let parts = parts.iter().filter(|part| part.is_fault || !is_fault);
            parts.map(|part| part.saved_ns[request]).sum()
        };
        let count = |is_fault: bool, least: u64| {
            let requests = 0..self.requests.len();
            requests
                .filter(|&request| saved(request, is_fault) >= least)
                .count() as f64
        };
        let (mut least, mut most) = (count(true, 2_000_000), count(false, 200_000));
        if connects {
            most = self.count;
        }
        if faults().any(|part| part.causes.len() > EACH_WAY) {
            // Each way in which such a fault delays a request is a cause of its own, and the usual time
            // of a request has some of it.
            (least, most) = (0.0, self.count);
        }
        // Each connection has to be made once.
        let connections = f64::from(self.recorded.traffic.talk.connections);
        let cut = if connects { connections } else { 0.0 };
        let off = (SHARE * most).max(FEW) + cut;
        let what = format!("affected by {name}");
        sentences.push(Sentence::number(what, affected, least, most, off));
        sentences.extend(self.predictions(finding, &saved));
        sentences
    }

    /// Judges the latencies that a finding predicts.
    fn predictions(&self, finding: &Finding, saved: &dyn Fn(usize, bool) -> u64) -> Vec<Sentence> {
        let Some(predicted) = &finding.predicted else {
            return Vec::new();
        };
        if !self.is_alone || self.recorded.traffic.view.skipped_percent > 0 {
            return Vec::new();
        }
        let (low, high) = self.times();
        let after = |times: &[u64], is_fault: bool| -> Vec<u64> {
            let times = times.iter().enumerate();
            times
                .map(|(request, time)| time.saturating_sub(saved(request, is_fault)))
                .collect()
        };
        let is_exact = |part: &Part| part.sum_ns.low == part.sum_ns.high;
        if !self.parts(finding).all(is_exact) {
            return Vec::new();
        }
        let (low, high) = (after(&low, false), after(&high, true));
        let name = finding.cause.as_str();
        let median = predicted.latency_ns.p50 as f64;
        let (from, to) = (quantile(&low, 0.47), quantile(&high, 0.53));
        let what = format!("median without {name}");
        vec![Sentence::time(what, median, from as f64, to as f64, 1.0)]
    }

    /// Judges the time that a finding only locates: its owner must have as much.
    fn place(&self, finding: &Finding) -> Vec<Sentence> {
        let Some(location) = finding.location.as_ref() else {
            return Vec::new();
        };
        let whole = |request: &TrueRequest| Span {
            low: 0,
            high: request
                .total_ns
                .saturating_sub(request.server_ns.low + request.client_ns.low)
                + request.connect_ns,
        };
        let (_, most) = match finding.culprit {
            Owner::Server => self.sum(|request| request.server_ns),
            Owner::Client => self.sum(|request| request.client_ns),
            Owner::Path => self.sum(whole),
            _ => return Vec::new(),
        };
        if !finding.service.ends_with(PORT) {
            return Vec::new();
        }
        let said = location.claimed_ns as f64;
        let what = finding.cause.as_str();
        vec![Sentence::time(what, said, 0.0, most, self.count)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_be_off_by_a_share_or_by_a_millisecond_for_each() {
        let of = |said, low, high, count| Sentence::time("it", said, low, high, count);
        assert!(of(108e6, 100e6, 100e6, 1.0).is_true());
        assert!(!of(112e6, 100e6, 100e6, 1.0).is_true());
        assert!(of(4e6, 1e6, 1e6, 3.0).is_true());
        assert!(!of(4.1e6, 1e6, 1e6, 3.0).is_true());
        assert!(of(50e6, 10e6, 90e6, 1.0).is_true());
    }

    #[test]
    fn quantiles_are_of_sorted_times() {
        assert_eq!(quantile(&[], 0.5), 0);
        assert_eq!(quantile(&[30, 10, 20], 0.5), 20);
        assert_eq!(quantile(&[30, 10, 20], 0.99), 30);
    }
}
