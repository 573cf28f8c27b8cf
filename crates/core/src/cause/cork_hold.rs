//! The rule of the cause `cork-hold`.
//!
//! The end of the silence distinguishes it from `server-think`: it ends when the kernel's probe
//! timer expires. The timer runs for the connection's retransmission timeout, 200 ms plus the round
//! trip. It expires on the kernel's tick, so all connections are released at the same phase of 4
//! ms. A program's timer is not bound to a tick.

use core::time::Duration;

use super::evidence::{self, median};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Exchange, Side};
use crate::observed::tcp::TCP_RTO_MIN;
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

const WORDING: Wording = Wording {
    summary: "The server announced more data to its kernel (TCP_CORK or MSG_MORE), but sent none: \
              each response waits {held} (median) for a timer, {share} of all request time.",
    ruled_out: &[
        (
            Id::ServerThink,
            "a program's work or timer would not end on the kernel's 4 ms tick every time",
        ),
        (
            Id::NagleDelayedAck,
            "the server had no unacknowledged data during the wait",
        ),
    ],
    overturned_by: "getsockopt(TCP_CORK) reading 0 during the wait, and no MSG_MORE in the \
        server's sends",
    fix: &[
        (
            "server",
            "take the cork off ({TCP_CORK} 0) when the message is complete",
        ),
        (
            "server",
            "send the last part without MSG_MORE; sendfile(2): no SPLICE_F_MORE",
        ),
    ],
};

/// Maximum time by which a measured time may be shorter than the timer.
const ERROR: Duration = Duration::from_micros(500);
/// Maximum time of the timer beyond the round trip. From 64 ticks on, the kernel rounds timers up
/// to a multiple of 8 ticks, which is 32 ms (`kernel/time/timer.c`: the second level of the timer
/// wheel). A varying round trip lengthens the timer too.
const UNTIL: Duration = Duration::from_millis(242);
/// The tick of most kernels, in nanoseconds (250 Hz).
const TICK_NS: u64 = 4_000_000;
/// Number of parts into which a tick is divided, to count the releases by phase.
const PARTS: usize = 16;
/// Number of adjacent parts that must contain the releases.
const WINDOW: usize = 3;
/// Minimum share of the releases in the [`WINDOW`] parts. A busy machine may handle a tick late,
/// and then several connections are released late.
const IN_WINDOW: f64 = 0.85;
/// Minimum number of releases. By chance, seven of eight fall into one window in less than one of a
/// thousand cases.
const LEAST_COUNT: u64 = 8;
/// Minimum share of held responses. A cork that is never removed holds nearly all.
const SHARE: f64 = 0.8;
/// Maximum size of a response that can be held as a whole, in bytes: a full segment on loopback.
/// The kernel holds only partial segments.
const LARGEST: u64 = 65_483;

/// Watches responses that leave when a kernel timer expires.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    tally: Tally,
    /// The durations of the timers.
    timers: Distribution,
    /// The times until what had been sent before was acknowledged. The retransmission timeout, and
    /// with it the timer, is longer by as much.
    acknowledged: Distribution,
    phases: [u64; PARTS],
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::LONG.or(Features::wait(WaitKind::ServerPause));

    fn observe(&mut self, exchange: &Exchange) {
        let Some(hold) = whole(exchange).or_else(|| tail(exchange)) else {
            return;
        };
        let phase =
            hold.until.as_nanos().rem_euclid(TICK_NS as i64) * PARTS as i64 / TICK_NS as i64;
        if let Some(count) = usize::try_from(phase)
            .ok()
            .and_then(|at| self.phases.get_mut(at))
        {
            *count += 1;
        }
        self.timers.record(hold.timer);
        self.acknowledged
            .record(hold.held.saturating_sub(hold.timer));
        self.tally
            .add(exchange, Cost::exactly(hold.held), Duration::ZERO);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let is_most = self.tally.affected as f64 >= case.ledger.counts.count as f64 * SHARE;
        let is_told = case.has_packets && self.tally.affected >= LEAST_COUNT && is_most;
        if !is_told || !self.is_timeout(case) || !self.is_on_tick() {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case)))
    }
}

/// A held response, or the held end of a response.
struct CorkedData {
    /// The time lost.
    held: Duration,
    /// The part of `held` that the timer took.
    timer: Duration,
    until: Timestamp,
}

/// Returns the hold of a response that fits into a partial segment.
fn whole(exchange: &Exchange) -> Option<CorkedData> {
    let held = exchange.waited(WaitKind::ServerThink);
    if held < TCP_RTO_MIN || exchange.response.count > LARGEST {
        return None;
    }
    let last = exchange
        .waits
        .iter()
        .rfind(|wait| wait.kind == WaitKind::ServerThink)?;
    Some(CorkedData {
        held,
        timer: held,
        until: last.end,
    })
}

/// Returns the hold of the partial segment after full segments. The timer starts when the full
/// segments are acknowledged, at least a round trip after they left: an ACK may be delayed.
fn tail(exchange: &Exchange) -> Option<CorkedData> {
    let pause = exchange
        .waits
        .iter()
        .rfind(|wait| wait.kind == WaitKind::ServerPause)?;
    let delivery = exchange
        .sending
        .deliveries
        .iter()
        .find(|delivery| delivery.sender == Side::Server)?;
    let last = delivery.pauses.last()?;
    let mss = u64::from(delivery.size.mss.max(1));
    let is_tail = last.after % mss == 0
        && delivery.size.bytes > last.after
        && delivery.size.bytes - last.after < mss
        && pause.end == exchange.end;
    let held = pause.duration();
    let timer = last
        .idle
        .unwrap_or_else(|| held.saturating_sub(delivery.round_trip));
    (is_tail && timer >= TCP_RTO_MIN).then_some(CorkedData {
        held,
        timer,
        until: pause.end,
    })
}

/// Returns the minimum duration of the probe timer: the timeout in whole ticks, rounded up
/// (`usecs_to_jiffies()`), minus the first tick, which has already begun.
fn least_timer(trip: Duration) -> Duration {
    let ticks = nanos(trip + TCP_RTO_MIN) / TICK_NS + 1;
    Duration::from_nanos(ticks * TICK_NS)
}

impl Rule {
    fn is_timeout(&self, case: &Case<'_>) -> bool {
        let trip = case.round_trip().unwrap_or_default();
        let late = self.acknowledged.quantile(0.9).unwrap_or_default();
        let band = least_timer(trip).saturating_sub(ERROR)..=trip.max(late) + UNTIL;
        [0.1, 0.9].into_iter().all(|part| {
            self.timers
                .quantile(part)
                .is_some_and(|held| band.contains(&held))
        })
    }

    /// Returns true if the releases have the same phase within the tick.
    fn is_on_tick(&self) -> bool {
        let sum: u64 = self.phases.iter().sum();
        let turns = self.phases.iter().cycle();
        let windows = (0..PARTS).map(|from| turns.clone().skip(from).take(WINDOW).sum::<u64>());
        windows.max().unwrap_or_default() as f64 >= sum as f64 * IN_WINDOW
    }

    fn claim(&self, case: &Case<'_>) -> Claim {
        let mut claim = evidence::claim(Id::CorkHold, Owner::Server, case, &self.tally);
        let text = format!(
            "{}, or their last parts, were free to leave but left only {} (median) later: this is \
             the period of the kernel's probe timer, and nearly all left at the same point of the \
             kernel's tick",
            counted(self.tally.affected, "response", "responses"),
            median(&self.timers),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(self.tally.affected)
                .median(&self.tally.saved),
        );
        claim.basis = Basis::new(self.tally.affected, false);
        let held = median(&self.tally.saved);
        WORDING.tell(&mut claim, &[("held", &held)]);
        claim
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_timer_takes_whole_ticks() {
        let micros = |us| Duration::from_micros(us);
        for (trip, least) in [
            (0, 204_000),
            (30, 204_000),
            (39_200, 240_000),
            (40_100, 244_000),
        ] {
            assert_eq!(least_timer(micros(trip)), micros(least), "{trip}");
        }
    }
}
