//! Stand-stills: everything that a server had to answer was answered together.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::Answers;
use crate::flow::Endpoint;
use crate::time::Timestamp;
use crate::timeline::Moment;

/// Shorter ones are a scheduler's or a disk's.
const LEAST_STALL: Duration = Duration::from_millis(20);
/// How many times the ordinary think time a stall is at least.
const OUTSTANDING: u32 = 4;
/// Answers after a stall follow each other within this time.
const BURST: Duration = Duration::from_millis(3);
/// Connections that must have waited together: two may be chance.
const LEAST_CONNECTIONS: usize = 3;
/// Stand-stills that must be seen: any host has a bad moment.
const OCCASIONS: usize = 3;
/// Share of the late answers that must be part of a stall.
const EXPLAINED: f64 = 0.7;
/// Share of all exchanges that may be late: more is how the server is.
const RARE: f64 = 0.5;
/// A request that came this long before the release and had its answer
/// meanwhile shows that the server ran.
const MEANWHILE: Duration = Duration::from_millis(5);
/// A request that waits longer is acknowledged first wherever the server's
/// kernel has it: a delayed ACK takes 40 ms (`TCP_DELACK_MIN` in
/// `include/net/tcp.h`) and up to a tick, from there on at most a round trip
/// (`tcp_send_delayed_ack()`).
const DELAYED_ACK: Duration = Duration::from_millis(52);
/// Ordinary requests that must follow a cold start.
const WARM: usize = 10;
/// How many times the ordinary think time a cold start is at least …
const COLD: u32 = 10;
/// … and its least length.
const LEAST_START: Duration = Duration::from_millis(50);
/// Of what waited for a cold start, the last is answered within this part of the
/// wait after the first: all want a processor at once then.
const STRAGGLING: u32 = 10;

/// A stand-still.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cause) struct Stall {
    /// The earliest request that waited.
    pub(in crate::cause) begin: Timestamp,
    /// The first answer after it.
    pub(in crate::cause) release: Timestamp,
    /// The last of the answers that were due.
    pub(in crate::cause) last: Timestamp,
    /// From the first request that waited to the last.
    pub(super) asked_over: Duration,
    pub(in crate::cause) connections: usize,
    pub(in crate::cause) requests: usize,
    /// Of those, how many waited longer than an acknowledgement may …
    pub(super) long: usize,
    /// … and how many of these were acknowledged before their answer.
    pub(super) acknowledged: usize,
}

impl Stall {
    /// How long it was at least.
    pub(in crate::cause) fn duration(&self) -> Duration {
        self.release.since(self.begin)
    }

    /// Whether `moment` waited in it.
    pub(in crate::cause) fn holds(&self, moment: &Moment) -> bool {
        moment.asked >= self.begin
            && moment.asked <= self.release
            && moment.answered >= self.release
            && moment.answered <= self.last
    }

    /// Requests that came over some time and were answered at once.
    fn is_common_release(&self) -> bool {
        self.asked_over > self.last.since(self.release) * 2
    }
}

/// The stand-stills, earliest first; none where they do not explain most of
/// what was late.
pub(super) fn stalls(answers: &Answers) -> Vec<Stall> {
    let least = LEAST_STALL.max(answers.ordinary() * OUTSTANDING);
    let answers = &answers.by_answer;
    let late: Vec<Moment> = answers
        .iter()
        .filter(|moment| moment.think() >= least)
        .copied()
        .collect();
    if late.is_empty() || late.len() as f64 > answers.len() as f64 * RARE {
        return Vec::new();
    }
    let bursts = late.chunk_by(|a, b| b.answered.since(a.answered) <= BURST);
    let stalls: Vec<Stall> = bursts.filter_map(|burst| stall(burst, answers)).collect();
    let explained: usize = stalls.iter().map(|stall| stall.requests).sum();
    match explained as f64 >= late.len() as f64 * EXPLAINED {
        true => stalls,
        false => Vec::new(),
    }
}

/// Whether these are the server's and not the requests': there are several,
/// and most of them ended at once for requests that had come at different
/// times, or all met requests for what is answered quickly at other times.
pub(super) fn are_common(stalls: &[Stall], clear: &[Moment]) -> bool {
    let common = stalls
        .iter()
        .filter(|stall| stall.is_common_release())
        .count();
    stalls.len() >= OCCASIONS && (common * 2 >= stalls.len() || are_usually_quick(stalls, clear))
}

/// Whether the server's kernel had what waited: a path that holds requests up
/// holds their acknowledgements too. `None` where nothing waited long enough.
pub(super) fn were_acknowledged(stalls: &[Stall]) -> Option<bool> {
    let long: usize = stalls.iter().map(|stall| stall.long).sum();
    let acknowledged: usize = stalls.iter().map(|stall| stall.acknowledged).sum();
    (long > 0).then_some(acknowledged * 2 >= long)
}

/// Whether what was asked for in the stand-stills is mostly answered quickly.
fn are_usually_quick(stalls: &[Stall], clear: &[Moment]) -> bool {
    let is_held = |moment: &Moment| stalls.iter().any(|stall| stall.holds(moment));
    let mut quick: BTreeMap<u64, usize> = BTreeMap::new();
    let mut held: BTreeMap<u64, usize> = BTreeMap::new();
    for moment in clear {
        let counts = if is_held(moment) {
            &mut held
        } else {
            &mut quick
        };
        *counts.entry(moment.target).or_default() += 1;
    }
    let is_usual = |(target, held): (&u64, &usize)| {
        *target != 0 && quick.get(target).is_some_and(|quick| quick >= held)
    };
    !held.is_empty() && held.iter().all(is_usual)
}

fn stall(burst: &[Moment], answers: &[Moment]) -> Option<Stall> {
    let release = burst.first()?.answered;
    let begin = burst.iter().map(|moment| moment.asked).min()?;
    let last_asked = burst.iter().map(|moment| moment.asked).max()?;
    let clients: BTreeSet<Endpoint> = burst.iter().map(|moment| moment.client).collect();
    let ran = answers
        .iter()
        .any(|moment| moment.answered > begin + MEANWHILE && moment.answered + BURST < release);
    let is_long = |moment: &&Moment| moment.think() > DELAYED_ACK.max(moment.to_server);
    let long = burst.iter().filter(is_long);
    (clients.len() >= LEAST_CONNECTIONS && !ran).then(|| Stall {
        begin,
        release,
        last: burst.last().map_or(release, |moment| moment.answered),
        asked_over: last_asked.since(begin),
        connections: clients.len(),
        requests: burst.len(),
        long: long.clone().count(),
        acknowledged: long.filter(|moment| moment.is_acked_first).count(),
    })
}

/// What a single stand-still was as the server's start, if it was that: the first
/// requests of all waited in it, each the first of its connection, and those
/// that followed are quick.
pub(super) fn start(stall: &Stall, answers: &Answers) -> Option<Stall> {
    let moments = &answers.moments;
    let is_early = |moment: &&Moment| moment.begin < stall.release;
    let early: Vec<&Moment> = moments.iter().filter(is_early).collect();
    let until = stall.release + stall.duration() / STRAGGLING;
    let is_first = early.iter().all(|moment| {
        moment.ordinal == 0
            && moment.asked <= stall.release
            && (stall.release..=until).contains(&moment.answered)
    });
    let is_warm = moments.len() - early.len() >= WARM;
    let is_cold = stall.duration() >= LEAST_START.max(answers.ordinary() * COLD);
    let clients: BTreeSet<Endpoint> = early.iter().map(|moment| moment.client).collect();
    (is_first && is_warm && is_cold).then(|| Stall {
        begin: early
            .iter()
            .map(|moment| moment.asked)
            .min()
            .unwrap_or(stall.begin),
        last: early
            .iter()
            .map(|moment| moment.answered)
            .max()
            .unwrap_or(stall.last),
        connections: clients.len(),
        requests: early.len(),
        ..stall.clone()
    })
}
