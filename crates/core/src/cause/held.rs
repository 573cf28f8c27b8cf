//! Small segments held by Nagle's algorithm: what the three causes share.

use core::time::Duration;

use super::evidence;
use super::tally::{Cost, Tally};
use crate::exchange::{Exchange, Hold, HoldRelease, Side};
use crate::histogram::Distribution;
use crate::report::{Evidence, EvidenceKind};

/// A receiver that answers later than this delays its ACKs: a kernel's own
/// answer takes microseconds, the least delayed ACK seen anywhere 20 ms less
/// a tick.
pub(crate) const DELAYED: Duration = Duration::from_millis(5);
/// Holds shorter than this cost nothing worth naming.
const NOTABLE: Duration = Duration::from_millis(1);
/// Of the second small parts that had to wait, this share must have left with
/// the acknowledgement; by chance a program's own timer comes that near to it
/// in one case of eight (0.5 ms in the 4 ms that a tick of 250 Hz leaves open).
const SHARE_RELEASED: f64 = 0.7;
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
    pub(crate) packets: Option<[u64; 3]>,
}

impl Held {
    pub(crate) fn observe(&mut self, sender: Side, exchange: &Exchange) {
        let mut held = Duration::ZERO;
        let mut is_released = false;
        for hold in exchange.holds.iter().filter(|hold| hold.sender == sender) {
            match hold.release {
                HoldRelease::Eager => self.eager += 1,
                HoldRelease::Program => self.late += 1,
                HoldRelease::Acknowledgement => {
                    self.note_release(hold);
                    is_released |= hold.held >= NOTABLE;
                }
            }
            if may_be_released(hold) {
                held += hold.held;
            }
        }
        self.released += u64::from(is_released);
        if held >= NOTABLE {
            let cost = Cost::exactly(held);
            match is_released {
                true => self.tally.add(exchange, cost, Duration::ZERO),
                false => self.tally.add_unclear(exchange, cost),
            }
        }
    }

    fn note_release(&mut self, hold: &Hold) {
        self.least_hold = Some(
            self.least_hold
                .map_or(hold.held, |least| least.min(hold.held)),
        );
        if hold.ack_delay < DELAYED {
            return;
        }
        self.delayed += 1;
        self.ack_delay.record(hold.ack_delay);
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
        self.ack_delay.merge(&other.ack_delay);
        self.reaction.merge(&other.reaction);
        self.least_hold = self.least_hold.into_iter().chain(other.least_hold).min();
        self.eager += other.eager;
        self.late += other.late;
        self.packets = self.packets.into_iter().chain(other.packets).min();
    }

    /// The least that the holds may have cost: the parts were written no later
    /// than the one that waited least, which bounds how late each was.
    pub(crate) fn cost_low_ns(&self) -> u64 {
        let writing = super::tally::nanos(self.least_hold.unwrap_or_default());
        let cost = self.tally.cost.likely;
        cost.saturating_sub(writing.saturating_mul(self.tally.affected))
    }

    /// Whether the acknowledgements are what released the second parts, and
    /// not the program: nearly all left with one, and hardly any before.
    pub(crate) fn is_by_acknowledgement(&self) -> bool {
        let released = self.released;
        let waited = released + self.late;
        released > 0
            && self.eager * EAGER_TOLERATED <= released
            && released as f64 >= waited as f64 * SHARE_RELEASED
    }

    /// Whether delayed acknowledgements are a good part of what they waited
    /// for: of the time, or for most of the parts and of some of the time,
    /// for on a long path each part waits for a round trip besides.
    pub(crate) fn is_delayed(&self) -> bool {
        let delays = u64::try_from(self.ack_delay.sum_ns()).unwrap_or(u64::MAX);
        let part = if self.delayed * 2 >= self.released {
            8
        } else {
            3
        };
        self.delayed > 0 && delays.saturating_mul(part) >= self.tally.cost.likely
    }

    /// How many left with the acknowledgement after a wait worth naming.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    /// What the packets show.
    pub(crate) fn wire(&self, sender: &str, receiver: &str) -> Evidence {
        let text = format!(
            "{} times the {sender} sent a small segment, the {receiver} acknowledged it only \
             after {} (median), and the {sender}'s next small segment left {} (median) after \
             that ACK reached it",
            self.delayed,
            evidence::median(&self.ack_delay),
            evidence::median(&self.reaction),
        );
        Evidence::mechanism(EvidenceKind::Wire, text)
            .count(self.delayed)
            .median(&self.ack_delay)
            .packets(&self.packets.unwrap_or_default())
    }
}

/// Whether the second part left with the acknowledgement or shortly after.
pub(crate) fn may_be_released(hold: &Hold) -> bool {
    match hold.release {
        HoldRelease::Acknowledgement => true,
        HoldRelease::Program => hold.reaction_ns <= TARDY_NS,
        HoldRelease::Eager => false,
    }
}
