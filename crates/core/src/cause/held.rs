//! Small segments held by Nagle's algorithm: what the three causes share.

use core::time::Duration;

use super::Case;
use super::evidence;
use super::features::Features;
use crate::exchange::{Exchange, Hold, HoldRelease, Side};
use crate::report::{Evidence, EvidenceKind};
use crate::service::tally::{Cost, Tally};
use crate::stats::histogram::Distribution;

/// A receiver that answers later than this delays its ACKs: a kernel's own
/// answer takes microseconds, the least delayed ACK seen anywhere 20 ms less
/// a tick.
pub(crate) const DELAYED: Duration = Duration::from_millis(5);
/// An acknowledgement that took this long was delayed by a timer, not a queue.
const BY_TIMER: Duration = Duration::from_millis(20);
/// No kernel may wait longer with an acknowledgement (RFC 9293 §3.8.6.3), give or take a tick:
/// what took longer was on its way, or stamped by hand.
const LONGEST: Duration = Duration::from_millis(600);
/// Holds shorter than this cost nothing worth naming.
const NOTABLE: Duration = Duration::from_millis(1);
/// Of the second small parts that had to wait, this share must have left with
/// the acknowledgement; by chance a program's own timer comes that near to it
/// in one case of eight (0.5 ms in the 4 ms that a tick of 250 Hz leaves open).
const SHARE_RELEASED: f64 = 0.7;
/// A busy host reacts late, so that fewer leave at once. Then it decides what
/// the second part's time follows: it moves with the acknowledgement's (slope
/// 1) where that releases it, and not at all (slope 0) where a timer does.
const SLOPE_RELEASED: f64 = 0.75;
/// At a lower slope nearness to the acknowledgement is chance.
const SLOPE_CHANCE: f64 = 0.4;
/// Times must spread by this much, and be this many, for the slope to mean
/// anything: a tick of 1000 Hz spreads delayed ACKs by 0.3 ms.
const SPREAD_MS: f64 = 0.3;
const PAIRS: u64 = 20;
/// One in this many may leave early: a lost ACK in the capture looks like it.
const EAGER_TOLERATED: u64 = 20;

/// Where acknowledgements are known to release the parts, one that left up to
/// this much later was released by its ACK too: a busy host is that slow.
const TARDY_NS: i64 = 5_000_000;

/// What was seen of one side's small second parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    /// Left with the acknowledgement, delayed or not.
    released: u64,
    /// What that cost, with those that left a little later.
    pub(crate) tally: Tally,
    /// Of those, the ones whose acknowledgement was delayed.
    pub(crate) delayed: u64,
    /// How long those acknowledgements took.
    pub(crate) ack_delay: Distribution,
    /// From the acknowledgement's arrival to the second part.
    pub(crate) reaction: Distribution,
    /// The least time any released part had to be written in: it bounds how
    /// late the others can have been written.
    least_hold: Option<Duration>,
    /// Left while the first part was unacknowledged.
    pub(crate) eager: u64,
    /// Left some time after the acknowledgement.
    pub(crate) late: u64,
    /// The part of the released that only the sender's kernel calls so.
    timed: u64,
    /// The part of the delayed that no packet shows.
    unseen: u64,
    /// The part of the late that only the sender's kernel shows to be.
    written: u64,
    pub(crate) packets: Option<[u64; 3]>,
    /// The first that a prompt acknowledgement released.
    pub(crate) prompt: Option<[u64; 3]>,
    /// Acknowledgement and second part, both counted from the first part.
    line: Line,
    /// Late ones that a busy host explains.
    tardy: u64,
}

impl Held {
    pub(super) const CONCERNS: Features = Features::HOLDS;

    pub(crate) fn observe(&mut self, sender: Side, exchange: &Exchange) {
        let mut held = Duration::ZERO;
        let mut is_released = false;
        let is_own = |hold: &&Hold| hold.sender == sender && hold.ack_delay <= LONGEST;
        for hold in exchange.holds.iter().filter(is_own) {
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
                    is_released |= hold.held >= NOTABLE;
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
        if held >= NOTABLE {
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
            let first = self.prompt.into_iter().chain([hold.packets]).min();
            self.prompt = first.filter(|_| hold.held >= NOTABLE).or(self.prompt);
            return;
        }
        self.delayed += 1;
        self.ack_delay.record(hold.ack_delay);
        if hold.release == HoldRelease::Timed {
            // No packet shows the acknowledgement that released it.
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

    pub(crate) fn merge(&mut self, other: Self) {
        self.released += other.released;
        self.tally.merge(other.tally);
        self.delayed += other.delayed;
        self.ack_delay.absorb(other.ack_delay);
        self.reaction.absorb(other.reaction);
        self.least_hold = self.least_hold.into_iter().chain(other.least_hold).min();
        self.eager += other.eager;
        self.late += other.late;
        self.timed += other.timed;
        self.unseen += other.unseen;
        self.written += other.written;
        self.packets = self.packets.into_iter().chain(other.packets).min();
        self.prompt = self.prompt.into_iter().chain(other.prompt).min();
        self.line.merge(&other.line);
        self.tardy += other.tardy;
    }

    /// The least that the holds may have cost: the parts were written no later
    /// than the one that waited least, which bounds how late each was.
    pub(crate) fn cost_low_ns(&self) -> u64 {
        let writing = crate::observed::time::nanos(self.least_hold.unwrap_or_default());
        let cost = self.tally.cost.likely;
        cost.saturating_sub(writing.saturating_mul(self.tally.affected))
    }

    /// Whether the acknowledgements are what released the second parts, and
    /// not the program: hardly any left before one, and nearly all left with
    /// one, or a little later at times that follow it.
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

    /// The verdict of the sender's kernel on those that packets call otherwise: held or not;
    /// `None` where it is not plain. The others look alike.
    fn sample(&self) -> Option<bool> {
        let named = self.timed + self.written;
        let is_most = |part: u64| part as f64 >= named as f64 * SHARE_RELEASED;
        match named >= evidence::REPEATS {
            true if is_most(self.timed) => Some(true),
            true if is_most(self.written) => Some(false),
            _ => None,
        }
    }

    /// Whether delayed acknowledgements are a good part of what they waited
    /// for: of its time or, where the way is long, of its number.
    pub(crate) fn is_delayed(&self) -> bool {
        let delays = u64::try_from(self.ack_delay.sum_ns()).unwrap_or(u64::MAX);
        let typical = self.ack_delay.quantile(0.5).unwrap_or_default();
        let is_common = self.delayed * 2 >= self.released && typical >= BY_TIMER;
        self.delayed > 0 && (delays.saturating_mul(3) >= self.tally.cost.likely || is_common)
    }

    /// How many left with the acknowledgement after a wait worth naming.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    /// The numbers that left with the acknowledgement and later by the packets alone, whatever
    /// the sender's kernel calls them.
    pub(crate) fn by_packets(&self) -> [u64; 2] {
        let released = self.released.saturating_sub(self.timed);
        [released, self.late + (self.released - released)]
    }

    /// What the packets show.
    pub(crate) fn wire(&self, sender: &str, receiver: &str) -> Evidence {
        let seen = self.delayed - self.unseen;
        let text = format!(
            "{} times the {sender} sent a small segment, the {receiver} acknowledged it only \
             after {} (median), and the {sender}'s next small segment left {} (median) after \
             that ACK reached it",
            seen,
            evidence::median(&self.ack_delay),
            evidence::median(&self.reaction),
        );
        // What only the kernel calls held the packets alone call a pause.
        let evidence = if self.timed * 2 > self.released {
            Evidence::circumstance(EvidenceKind::Wire, text)
        } else {
            Evidence::mechanism(EvidenceKind::Wire, text)
        };
        evidence
            .count(seen)
            .median(&self.ack_delay)
            .packets(&self.packets.unwrap_or_default())
    }

    /// Returns true if packets show what the parts waited for.
    pub(crate) fn is_on_the_wire(&self) -> bool {
        self.timed == 0 || !self.reaction.is_empty()
    }
}

/// What the sender's own kernel showed of what it held back, where the server's
/// was watched.
pub(crate) fn kernel_trace(case: &Case<'_>) -> Option<Evidence> {
    let turns = case.facts.turns.services.get(&case.endpoint)?;
    if turns.holds == 0 {
        return None;
    }
    let text = format!(
        "in {} of {} turns the server's kernel held written bytes back while TCP_NODELAY was off, \
         both windows had room and something small was unacknowledged: {} (median) until they \
         left; in {} of {} holds a segment from the client came just before",
        turns.held.count(),
        turns.turns,
        evidence::median(&turns.held),
        turns.after_arrival,
        turns.holds,
    );
    let evidence = if turns.after_arrival * 2 > turns.holds {
        Evidence::mechanism(EvidenceKind::KernelTrace, text)
    } else {
        Evidence::circumstance(EvidenceKind::KernelTrace, text)
    };
    Some(evidence.count(turns.held.count()).median(&turns.held))
}

/// Whether the server's kernel was watched and held nothing back.
pub(crate) fn is_seen_not_to_hold(case: &Case<'_>) -> bool {
    let turns = case.facts.turns.services.get(&case.endpoint);
    turns.is_some_and(|turns| turns.staged >= evidence::REPEATS && turns.holds == 0)
}

/// Whether the second part left with the acknowledgement or shortly after.
pub(crate) fn may_be_released(hold: &Hold) -> bool {
    match hold.release {
        HoldRelease::Acknowledgement | HoldRelease::Timed => true,
        HoldRelease::Program => hold.reaction_ns <= TARDY_NS,
        HoldRelease::Eager | HoldRelease::Written => false,
    }
}

/// A regression of the second part's time on the acknowledgement's, in sums of
/// microseconds that do not depend on the order.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    count: u64,
    x: u128,
    y: u128,
    xx: u128,
    xy: u128,
}

impl Line {
    fn add(&mut self, x: Duration, y: Duration) {
        // Beyond a second something else went on.
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

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.x += other.x;
        self.y += other.y;
        self.xx += other.xx;
        self.xy += other.xy;
    }

    /// How far the second part moves when the acknowledgement moves; `None`
    /// where there is too little to tell.
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
