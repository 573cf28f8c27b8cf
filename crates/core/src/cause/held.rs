//! Small segments that Nagle's algorithm held back. Three rules use them.
//!
//! A *hold* consists of a first small segment, its ACK, and a second small segment that the program
//! may have written long before it left.

use core::time::Duration;

use super::Case;
use super::evidence;
use super::features::Features;
use super::served;
use crate::claim::Statement;
use crate::exchange::HoldPackets;
use crate::exchange::{Exchange, Hold, HoldRelease, Side};
use crate::report::{EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Minimum delay of a delayed ACK. A kernel sends an immediate ACK within microseconds; the
/// shortest delayed ACK ever observed took 20 ms minus a tick.
pub(crate) const DELAYED: Duration = Duration::from_millis(5);
/// Minimum median delay of ACKs that a timer delays. A shorter delay may come from a queue.
const BY_TIMER: Duration = Duration::from_millis(20);
/// Maximum delay of a delayed ACK: 0.5 s (RFC 9293 §3.8.6.3) plus a margin. An ACK with a longer
/// delay was in flight, or its timestamp is artificial.
const LONGEST: Duration = Duration::from_millis(600);
/// Minimum hold that counts.
const LEAST_HOLD: Duration = Duration::from_millis(1);
/// Minimum share of the held second segments that left with the ACK. A program's own timer expires
/// within 0.5 ms of the ACK in one of eight cases, by chance: ticks at 250 Hz are 4 ms apart.
const SHARE_RELEASED: f64 = 0.7;
/// Minimum slope that shows a release by the ACK. It is the slope of the second segment's time over
/// the ACK's time: 1 if the ACK releases the segment, and 0 if a timer does. The slope decides if a
/// busy host reacts late, so that fewer segments leave together with the ACK.
const SLOPE_RELEASED: f64 = 0.75;
/// Maximum slope if segments are close to the ACK only by chance.
const SLOPE_CHANCE: f64 = 0.4;
/// Minimum standard deviation of the ACKs' times for a meaningful slope, in milliseconds. A tick at
/// 1000 Hz spreads delayed ACKs by 0.3 ms.
const SPREAD_MS: f64 = 0.3;
const PAIRS: u64 = 20;
/// Minimum number of released segments for each segment that left before its ACK. A few early
/// segments are tolerated, because an ACK that is missing in the capture looks the same.
const EAGER_TOLERATED: u64 = 20;

/// Maximum time from the ACK to a segment that the ACK may have released on a busy host.
const TARDY_NS: i64 = 5_000_000;

/// The second segments of the holds of one side.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct HeldSegments {
    /// Number of exchanges with a segment that left together with the ACK, delayed or not.
    released: u64,
    /// The cost of the released segments, and of segments that left a little later.
    pub(crate) tally: Tally,
    /// Number of released segments whose ACK was a delayed ACK.
    pub(crate) delayed: u64,
    /// The delays of the delayed ACKs.
    pub(crate) ack_delay: Distribution,
    /// The times from the ACK's arrival to the second segment.
    pub(crate) reaction: Distribution,
    /// The shortest hold of a released segment. The program wrote the second segment within that
    /// time. [`HeldSegments::cost_low_ns`] assumes that it took this time in every hold.
    #[merge(least)]
    least_hold: Option<Duration>,
    /// Number of second segments that left before the ACK of the first.
    pub(crate) eager: u64,
    /// Number of second segments that left some time after the ACK.
    pub(crate) late: u64,
    /// Number of releases that only the sender's kernel shows.
    timed: u64,
    /// Number of delayed ACKs that no packet shows.
    unseen: u64,
    /// Number of late segments that the program wrote late, as only the sender's kernel shows.
    written: u64,
    #[merge(least)]
    pub(crate) packets: Option<HoldPackets>,
    pub(crate) prompt: Prompt,
    /// The times of the ACK and of the second segment, both since the first segment.
    line: Line,
    /// Number of late segments that may be late because the host was busy.
    tardy: u64,
}

/// The segments that an immediate ACK released.
#[derive(Clone, Copy, Debug, Default, Merge)]
pub(crate) struct Prompt {
    /// The packets of the first one.
    #[merge(least)]
    pub(crate) packets: Option<HoldPackets>,
    count: u64,
    /// Number of segments released while a congestion window may have been full.
    crowded: u64,
}

impl Prompt {
    fn note(&mut self, hold: &Hold) {
        self.count += 1;
        self.crowded += u64::from(hold.is_crowded);
        if hold.held >= LEAST_HOLD {
            self.packets = self.packets.into_iter().chain([hold.packets]).min();
        }
    }

    /// Returns true if a full congestion window may explain most of these holds.
    pub(crate) fn may_be_crowded(self) -> bool {
        self.crowded * 2 > self.count
    }
}

impl HeldSegments {
    pub(super) const CONCERNS: Features = Features::HOLDS;

    pub(crate) fn observe(&mut self, sender: Side, exchange: &Exchange) {
        let mut held = Duration::ZERO;
        let mut is_released = false;
        let is_own = |hold: &&Hold| hold.sender == sender && hold.ack_delay <= LONGEST;
        for hold in exchange.sending.holds.iter().filter(is_own) {
            match hold.release {
                HoldRelease::Eager => self.eager += 1,
                HoldRelease::Program => {
                    self.late += 1;
                    self.tardy += u64::from(may_be_released(hold));
                }
                HoldRelease::Written => {
                    self.late += 1;
                    self.written += 1;
                }
                HoldRelease::Acknowledgement | HoldRelease::Timed => {
                    self.timed += u64::from(hold.release == HoldRelease::Timed);
                    self.note_release(hold);
                    is_released |= hold.held >= LEAST_HOLD;
                }
            }
            if may_be_released(hold) {
                held += hold.held;
            }
            let is_unseen = matches!(hold.release, HoldRelease::Timed | HoldRelease::Eager);
            if !is_unseen && hold.ack_delay >= DELAYED {
                self.line.add(hold.ack_delay, hold.held);
            }
        }
        self.released += u64::from(is_released);
        if held >= LEAST_HOLD {
            let cost = Cost::exactly(held);
            if is_released {
                self.tally.add(exchange, cost, Duration::ZERO)
            } else {
                self.tally.add_unclear(exchange, cost)
            }
        }
    }

    fn note_release(&mut self, hold: &Hold) {
        self.least_hold = Some(
            self.least_hold
                .map_or(hold.held, |least| least.min(hold.held)),
        );
        if hold.ack_delay < DELAYED {
            return self.prompt.note(hold);
        }
        self.delayed += 1;
        self.ack_delay.record(hold.ack_delay);
        if hold.release == HoldRelease::Timed {
            // The capture does not contain the ACK that released the segment.
            self.unseen += 1;
            return;
        }
        let reaction = u64::try_from(hold.reaction_ns).unwrap_or_default();
        self.reaction.record(Duration::from_nanos(reaction));
        self.packets = Some(
            self.packets
                .map_or(hold.packets, |first| first.min(hold.packets)),
        );
    }

    /// Returns the lower bound of the holds' cost. It assumes that the program wrote each second
    /// segment as late as the shortest hold allows.
    pub(crate) fn cost_low_ns(&self) -> u64 {
        let writing = crate::observed::time::nanos(self.least_hold.unwrap_or_default());
        let cost = self.tally.cost.likely;
        cost.saturating_sub(writing.saturating_mul(self.tally.affected))
    }

    /// Returns true if the ACKs released the second segments, and not the program. Hardly any
    /// segment may leave before the ACK. Nearly all must leave with it, or a little later at times
    /// that depend on the ACK.
    pub(crate) fn is_by_acknowledgement(&self) -> bool {
        let waited = (self.released + self.late) as f64;
        let soon = (self.released + self.tardy) as f64;
        if self.released == 0 || self.eager * EAGER_TOLERATED > self.released + self.tardy {
            return false;
        }
        if let Some(is_held) = self.sample() {
            return is_held;
        }
        let at_once = self.released as f64 >= waited * SHARE_RELEASED;
        match self.line.slope() {
            Some(slope) if slope <= SLOPE_CHANCE => false,
            Some(slope) if slope >= SLOPE_RELEASED => at_once || soon >= waited * SHARE_RELEASED,
            _ => at_once,
        }
    }

    /// Returns the verdict of the sender's kernel on the segments that it classifies differently
    /// than the packets: true if Nagle's algorithm held them. `None` if these are too few or
    /// contradict each other.
    fn sample(&self) -> Option<bool> {
        let named = self.timed + self.written;
        let is_most = |part: u64| part as f64 >= named as f64 * SHARE_RELEASED;
        if named < evidence::REPEATS {
            None
        } else if is_most(self.timed) {
            Some(true)
        } else {
            is_most(self.written).then_some(false)
        }
    }

    /// Returns true if delayed ACKs cause much of the wait: at least a third of its time or, on a
    /// long path, at least half of the holds.
    pub(crate) fn is_delayed(&self) -> bool {
        let delays = u64::try_from(self.ack_delay.sum_ns()).unwrap_or(u64::MAX);
        let typical = self.ack_delay.quantile(0.5).unwrap_or_default();
        let is_common = self.delayed * 2 >= self.released && typical >= BY_TIMER;
        self.delayed > 0 && (delays.saturating_mul(3) >= self.tally.cost.likely || is_common)
    }

    /// Returns the number of exchanges in which a segment left with the ACK after a wait that
    /// counts.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    /// Returns two numbers as the packets alone show them, without the sender's kernel: segments
    /// that left with the ACK, and segments that left later.
    pub(crate) fn by_packets(&self) -> [u64; 2] {
        let released = self.released.saturating_sub(self.timed);
        [released, self.late + (self.released - released)]
    }

    /// Returns the evidence from packets.
    pub(crate) fn wire(&self, sender: &str, receiver: &str) -> Statement {
        let seen = self.delayed - self.unseen;
        let text = format!(
            "{} the {sender} sent a small segment, the {receiver} acknowledged it only after {} \
             (median), and the {sender}'s next small segment left {} (median) after that ACK \
             reached it",
            counted(seen, "time", "times"),
            evidence::median(&self.ack_delay),
            evidence::median(&self.reaction),
        );
        // If most holds are visible only in the kernel, the packets alone show pauses of the
        // program.
        let evidence = if self.timed * 2 > self.released {
            Statement::fits(EvidenceKind::Wire, text)
        } else {
            Statement::shows(EvidenceKind::Wire, text)
        };
        evidence
            .count(seen)
            .median(&self.ack_delay)
            .packets(&self.packets.map(HoldPackets::numbers).unwrap_or_default())
    }

    /// Returns true if the capture contains ACKs for which the segments waited.
    pub(crate) fn is_on_the_wire(&self) -> bool {
        self.timed == 0 || !self.reaction.is_empty()
    }
}

/// Returns the evidence of the server's kernel on the bytes that it held back; `None` if it was not
/// watched.
pub(crate) fn kernel_trace(case: &Case<'_>) -> Option<Statement> {
    let turns = case.facts.turns.services.get(&case.endpoint)?;
    if turns.holds == 0 {
        return None;
    }
    let text = format!(
        "in {} of {} the server's kernel held written bytes back while TCP_NODELAY was off, both \
         windows had room and something small was unacknowledged: {} (median) until they left; in \
         {} of {} holds a segment from the client came just before",
        turns.held.count(),
        counted(turns.turns, "turn", "turns"),
        evidence::median(&turns.held),
        turns.after_arrival,
        turns.holds,
    );
    let evidence = if turns.after_arrival * 2 > turns.holds {
        Statement::shows(EvidenceKind::KernelTrace, text)
    } else {
        Statement::fits(EvidenceKind::KernelTrace, text)
    };
    Some(evidence.count(turns.held.count()).median(&turns.held))
}

/// Returns true if the server's kernel timed the requests that waited for `held`, and held nothing
/// back.
pub(super) fn is_seen_not_to_hold(held: &HeldSegments, case: &Case<'_>) -> bool {
    served::turns_that_waited(case, &held.tally).is_some_and(|turns| turns.holds == 0)
}

/// Returns true if the second segment left with the ACK or shortly after it.
pub(crate) fn may_be_released(hold: &Hold) -> bool {
    match hold.release {
        HoldRelease::Acknowledgement | HoldRelease::Timed => true,
        HoldRelease::Program => hold.reaction_ns <= TARDY_NS,
        HoldRelease::Eager | HoldRelease::Written => false,
    }
}

/// A linear regression of the second segment's time over the ACK's time, in microseconds. It keeps
/// sums, so the order of the samples does not matter.
#[derive(Clone, Copy, Debug, Default, Merge)]
struct Line {
    count: u64,
    x: u128,
    y: u128,
    xx: u128,
    xy: u128,
}

impl Line {
    fn add(&mut self, x: Duration, y: Duration) {
        // Holds of more than a second have another reason.
        let (x, y) = (x.as_micros(), y.as_micros());
        if x > 1_000_000 || y > 1_000_000 {
            return;
        }
        self.count += 1;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    /// Returns the slope: the change of the second segment's time per change of the ACK's time.
    /// `None` if there are too few times, or if they are too similar.
    fn slope(&self) -> Option<f64> {
        if self.count < PAIRS {
            return None;
        }
        let count = self.count as f64;
        let (mean_x, mean_y) = (self.x as f64 / count, self.y as f64 / count);
        let variance = self.xx as f64 / count - mean_x * mean_x;
        let covariance = self.xy as f64 / count - mean_x * mean_y;
        (variance.sqrt() >= SPREAD_MS * 1000.0).then(|| covariance / variance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pairs: impl Iterator<Item = (u64, u64)>) -> Option<f64> {
        let mut line = Line::default();
        for (x, y) in pairs {
            line.add(Duration::from_micros(x), Duration::from_micros(y));
        }
        line.slope()
    }

    #[test]
    fn the_slope_tells_a_release_from_a_timer() {
        let acks = || (0..100).map(|n| 40_000 + n * 40);
        let follows = line(acks().map(|ack| (ack, ack + 300))).expect("enough");
        assert!((follows - 1.0).abs() < 0.01, "{follows}");
        let timer = line(acks().map(|ack| (ack, 44_100))).expect("enough");
        assert!(timer.abs() < 0.01, "{timer}");
        assert_eq!(line(acks().take(5).map(|ack| (ack, ack))), None, "too few");
        assert_eq!(line((0..100).map(|_| (40_000, 40_100))), None, "no spread");
    }
}
