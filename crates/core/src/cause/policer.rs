//! `policer`: the bytes that pass between two losses match a constant rate, every time, although no
//! queue delayed them or spaced them out. So a token bucket was empty at each loss (after Flach et
//! al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016, §3.1). Random losses match
//! no rate. A queue that overflows delays its packets and releases them at even intervals.

use core::time::Duration;
use std::collections::BTreeMap;

use super::evidence::percent;
use super::limited::bits;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Claim, Statement};
use crate::exchange::{DropSlot, Drops, Exchange, Side};
use crate::observed::event::PointId;
use crate::report::EvidenceKind;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "A device on the path enforces {rate} by dropping packets: bursts get through until \
              an allowance is used up, and the excess is lost. {part} of the exchanges had to wait \
              for a retransmission.",
    ruled_out: &[
        (
            Id::PacketLoss,
            "random losses do not leave the same bytes per second between them",
        ),
        (
            Id::BandwidthLimit,
            "a slow link's queue delays packets and spaces them out; here nothing was delayed or \
             spaced out",
        ),
    ],
    overturned_by: "segments lost while less than {rate} is sent, or the counters of every policer \
        on the path not rising",
    fix: &[
        (
            "path",
            "raise the policer's rate or burst, or have it shape (queue) instead of drop",
        ),
        (
            "{from}",
            "stay below it: pace or shape to less than {rate} (tc fq maxrate, SO_MAX_PACING_RATE)",
        ),
        (
            "path",
            "find it: `tc -s filter show`, `police` drops; a cloud's allowance counters (`ethtool \
             -S`)",
        ),
    ],
};

/// Maximum number of time slots kept for a service. They cover 32 s in which data was lost.
const MAX_SLOTS: usize = 16_384;
/// Minimum time from the first to the last loss of a window. In a longer window, one segment more
/// or less does not matter.
const LEAST_WINDOW: Duration = Duration::from_millis(100);
/// Minimum number of the sender's round trips in a window, and minimum number of segments. In a
/// longer window, one segment more or less does not matter.
const ROUNDS: u32 = 5;
const LEAST_SEGMENTS: u64 = 10;
/// Maximum time without a segment in a window, also as a number of round trips. In a longer time,
/// the token bucket may fill up again.
const LONGEST_SILENCE: Duration = Duration::from_millis(60);
const SILENT_ROUNDS: u32 = 2;
/// Minimum number of windows for a rate that is not chance. Flach et al. require 15 losses.
const LEAST_WINDOWS: usize = 5;
/// Maximum relative deviation of a window that matches the rate.
const OFF: f64 = 0.15;
/// Minimum share of the windows that match the rate.
const AT_RATE: f64 = 0.8;
/// Minimum share of the sent bytes that is dropped. A smaller share may be chance.
const LEAST_LOST: f64 = 0.02;
/// Minimum share of the bytes that were sent directly after other bytes.
const AT_ONCE: f64 = 0.5;
/// Maximum rate of a policer, in bytes per second. Behind an ordinary link with a higher rate, full
/// segments follow each other just as closely.
const FASTEST: f64 = 10e6;

/// Watches for a token bucket on the path, in each direction.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    server: Account,
    client: Account,
}

/// The bytes of one side's messages, passed and dropped.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::settle)]
struct Account {
    #[merge(entries)]
    slots: BTreeMap<(PointId, i64), (u64, u64)>,
    at_once: u64,
    timed: u64,
    /// Number of messages that waited in a queue, out of `messages`.
    queued: u64,
    messages: u64,
    #[merge(max)]
    mss: u64,
    /// The longest round trip.
    #[merge(max)]
    round_trip: Duration,
}

/// The rate that a token bucket allows.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// The rate in bytes per second.
    rate: f64,
    windows: usize,
    at_rate: usize,
    /// The dropped share of all bytes.
    lost: f64,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::DROPS;

    fn observe(&mut self, exchange: &Exchange) {
        if let Some(drops) = &exchange.loss.drops {
            let account = match drops.sender {
                Side::Server => &mut self.server,
                Side::Client => &mut self.client,
            };
            account.add_drops(exchange.id.point, drops);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let sides = [(&self.server, "server"), (&self.client, "client")];
        let mut kept = sides
            .into_iter()
            .filter_map(|(account, from)| Some((account.allowance()?, from)));
        let Some((allowance, from)) = kept.next() else {
            return Conclusion::Nothing;
        };
        match case.gathered.losses.claim(Id::Policer, case) {
            Some(claim) => Conclusion::Claim(Box::new(told(claim, allowance, from))),
            None => Conclusion::Nothing,
        }
    }
}

impl Account {
    fn add_drops(&mut self, point: PointId, drops: &Drops) {
        for slot in &drops.slots {
            let sum = self.slots.entry((point, slot.number)).or_default();
            sum.0 += slot.passed;
            sum.1 += slot.lost;
        }
        self.at_once += drops.at_once;
        self.timed += drops.timed;
        self.queued += u64::from(drops.has_queue);
        self.messages += 1;
        self.mss = self.mss.max(u64::from(drops.mss));
        self.round_trip = self.round_trip.max(drops.round_trip);
        self.settle();
    }

    /// Keeps the earliest slots. The order in which exchanges close does not matter.
    fn settle(&mut self) {
        while self.slots.len() > MAX_SLOTS {
            self.slots.pop_last();
        }
    }

    /// Returns the rate that the path allows; `None` if there is no such rate.
    fn allowance(&self) -> Option<Allowance> {
        let mut rates = self.rates();
        rates.sort_by(f64::total_cmp);
        let rate = rates.get(rates.len() / 2).copied()?;
        let at_rate = rates
            .iter()
            .filter(|other| (*other / rate - 1.0).abs() <= OFF)
            .count();
        let sum = |of: fn(&(u64, u64)) -> u64| self.slots.values().map(of).sum::<u64>() as f64;
        let (passed, lost) = (sum(|slot| slot.0), sum(|slot| slot.1));
        let lost = lost / (passed + lost).max(1.0);
        let is_kept =
            rates.len() >= LEAST_WINDOWS && at_rate as f64 >= rates.len() as f64 * AT_RATE;
        let is_unspaced = self.at_once as f64 >= self.timed as f64 * AT_ONCE;
        let is_unqueued = self.queued * 2 < self.messages;
        let is_policed =
            is_kept && is_unspaced && is_unqueued && lost >= LEAST_LOST && rate <= FASTEST;
        is_policed.then_some(Allowance {
            rate,
            windows: rates.len(),
            at_rate,
            lost,
        })
    }

    /// Returns the rate of each window, in bytes per second. A window extends from one loss to
    /// another.
    fn rates(&self) -> Vec<f64> {
        let shortest = LEAST_WINDOW.max(self.round_trip * ROUNDS);
        let silence = LONGEST_SILENCE.max(self.round_trip * SILENT_ROUNDS);
        let mut rates = Vec::new();
        let mut open: Option<(i64, u64)> = None;
        let mut last: Option<(PointId, i64)> = None;
        for (&(point, number), &(passed, lost)) in &self.slots {
            let is_broken = |(at, before): (PointId, i64)| {
                at != point || DropSlot::span(number - before) > silence
            };
            if last.is_some_and(is_broken) {
                open = None;
            }
            last = Some((point, number));
            if let (Some((since, bytes)), true) = (open, lost > 0) {
                let took = DropSlot::span(number - since);
                if took >= shortest && bytes >= LEAST_SEGMENTS * self.mss {
                    rates.push(bytes as f64 / took.as_secs_f64());
                    open = None;
                }
            }
            open = match open {
                Some((since, bytes)) => Some((since, bytes + passed)),
                None if lost > 0 => Some((number, passed)),
                None => None,
            };
        }
        rates
    }
}

fn told(mut claim: Claim, allowance: Allowance, from: &str) -> Claim {
    let rate = bits(allowance.rate);
    let text = format!(
        "between losses, the {from}'s data got through at {rate}: in {} of {} such periods the \
         rate was the same within {}; {} of all bytes were dropped, and the others were neither \
         spaced out nor queued",
        allowance.at_rate,
        allowance.windows,
        percent(OFF),
        percent(allowance.lost),
    );
    let count = u64::try_from(allowance.at_rate).unwrap_or(u64::MAX);
    claim
        .evidence
        .insert(0, Statement::shows(EvidenceKind::Wire, text).count(count));
    WORDING.tell(&mut claim, &[("rate", &rate), ("from", &from)]);
    claim
}
