//! `radio-power-save`: what follows a pause is late by a constant time,
//! handshakes too, which no program answers; what follows at once is not. A
//! server that is slow after a pause would have had its kernel acknowledge the
//! request first, and would not slow down handshakes.

use core::time::Duration;

use super::evidence::{self, fix, human, median, ruled_out};
use super::tally::{Cost, Tally};
use super::{Case, Conclusion};
use crate::connection::{Setup, SetupOutcome};
use crate::exchange::Exchange;
use crate::histogram::Distribution;
use crate::report::{Evidence, EvidenceKind};
use crate::wait::Owner;

/// Radios fall asleep after pauses of this length at the earliest (Wi-Fi
/// clients after 100 ms, LTE's connected-mode DRX after 100 to 200 ms).
const PAUSE: Duration = Duration::from_millis(100);
/// Waking takes this long at least, and at most: shorter than a Wi-Fi beacon's
/// fifth nothing is told from a server, longer than LTE's longest DRX cycle
/// and a bit nothing is a radio.
const WAKING: core::ops::RangeInclusive<Duration> =
    Duration::from_millis(15)..=Duration::from_millis(400);
/// What follows at once may be late by this share of the time it takes to wake.
const PROMPT: f64 = 0.25;
/// Waking times keep within this share of their median, or 5 ms …
const SPREAD: f64 = 0.25;
const LEAST_SPREAD: Duration = Duration::from_millis(5);
/// … and one answer in so many may have been acknowledged before.
const ACKED: u64 = 10;

/// Compares what follows a pause with what does not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    tally: Tally,
    woken: Distribution,
    prompt: Distribution,
    handshakes: Distribution,
    least: Option<Duration>,
    acked_first: u64,
}

impl super::Rule for Rule {
    fn observe(&mut self, exchange: &Exchange) {
        let (Some(reply), Some(least)) = (exchange.travel.reply, exchange.least_trip) else {
            return;
        };
        let late = reply.saturating_sub(least);
        self.least = self.least.into_iter().chain([least]).min();
        if exchange.travel.idle.is_none_or(|idle| idle < PAUSE) {
            self.prompt.record(late);
            return;
        }
        self.woken.record(late);
        self.acked_first += u64::from(exchange.travel.is_acked_first);
        if WAKING.contains(&late) {
            self.tally.add(exchange, Cost::exactly(late), Duration::ZERO);
        }
    }

    fn observe_setup(&mut self, setup: &Setup) {
        if setup.outcome == Some(SetupOutcome::Established) && setup.retransmissions == 0 {
            self.handshakes.record(setup.duration());
        }
    }

    fn merge(&mut self, other: Self) {
        self.tally.merge(other.tally);
        self.woken.merge(&other.woken);
        self.prompt.merge(&other.prompt);
        self.handshakes.merge(&other.handshakes);
        self.least = self.least.into_iter().chain(other.least).min();
        self.acked_first += other.acked_first;
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let is_seen = evidence::is_material(case, &self.tally)
            && self.tally.affected >= evidence::REPEATS;
        let Some(waking) = self.waking().filter(|_| is_seen) else {
            return Conclusion::Nothing;
        };
        let mut finding = evidence::finding("radio-power-save", Owner::Path, case, &self.tally);
        let text = format!(
            "after pauses of {} and more, {} answers came {} (median) later than the path takes, \
             handshakes too ({}); without a pause {}",
            human(PAUSE),
            self.tally.affected,
            human(waking),
            median(&self.handshakes),
            median(&self.prompt),
        );
        finding.evidence.push(
            Evidence::mechanism(EvidenceKind::Wire, text)
                .count(self.tally.affected)
                .median(&self.tally.saved),
        );
        finding.verdict = evidence::judge(&finding.evidence, self.tally.affected, false);
        finding.summary = format!(
            "Something on the way falls asleep: the first packet after a pause waits {} for it to \
             wake, what follows does not. Radios that save power do that.",
            human(waking),
        );
        finding.ruled_out = vec![
            ruled_out("server-think", "handshakes are late too, which the kernel answers; and its delayed ACK, due after 40 ms, did not come before the answers"),
            ruled_out("path-queueing", "what follows at once is as quick as ever"),
        ];
        finding.overturned_by =
            "a capture at the server that shows these requests arriving in time".to_owned();
        finding.fix = vec![
            fix("client", "iw dev wlan0 set power_save off; on a phone's network nothing but keeping the radio awake"),
            fix("client", "send what belongs together at once, or a packet every 100 ms while a request is likely"),
        ];
        Conclusion::Finding(Box::new(finding))
    }
}

impl Rule {
    /// How long waking takes, if that is what it is.
    fn waking(&self) -> Option<Duration> {
        let at = |of: &Distribution, quantile| of.quantile(quantile).unwrap_or_default();
        let waking = self.woken.quantile(0.5)?;
        let prompt = self.prompt.quantile(0.5)?;
        let shook = self.handshakes.quantile(0.5)?;
        let spread = at(&self.woken, 0.8).saturating_sub(at(&self.woken, 0.2));
        let is_waking = WAKING.contains(&waking)
            && spread <= LEAST_SPREAD.max(waking.mul_f64(SPREAD))
            && prompt <= waking.mul_f64(PROMPT)
            && shook >= self.least.unwrap_or_default() + waking / 2
            && self.acked_first * ACKED <= self.woken.count();
        is_waking.then_some(waking)
    }
}
