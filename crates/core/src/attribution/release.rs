//! Acknowledgements and windows, by the time at which they reached a sender.
//!
//! A stamp of the observation point is not the sender's; what left at the point's time `t` answers
//! what passed the point one round trip to the sender earlier.

use core::time::Duration;

use super::Trace;
use crate::attribution::mark::Mark;
use crate::exchange::Side;
use crate::observed::time::Timestamp;

/// The longest time after an ACK's arrival in which a sender that was blocked on it sends.
pub(super) const REACTION: Duration = Duration::from_micros(500);

/// Minimum round trip of a path: on a shorter one an ACK comes back at once, and what leaves with
/// it may as well have been written just then.
pub(super) const LEAST_TRIP: Duration = Duration::from_millis(1);

/// The part of the round trip by which it takes longer at times.
const STRAYING: u32 = 32;

/// The number of wires that a full segment is put on: by its sender, and once more by a switch.
const WIRES: u32 = 2;

/// Returns the most time that `sender` takes to send what something that reached it let go. What
/// timed the trip to it may have been a bare acknowledgement, which on a slow wire takes far less
/// long to send than a full segment.
pub(super) fn reaction(trace: &Trace<'_>, sender: Side) -> Duration {
    REACTION + trace.serialization(sender) * WIRES
}

/// Returns the most by which an answer of `sender` comes later than the least round trip says.
fn lateness(trace: &Trace<'_>, sender: Side) -> Duration {
    let trip = trace.round_trip(sender);
    trip.error() + reaction(trace, sender) + trip.floor().unwrap_or_default() / STRAYING
}

/// Returns the acknowledgement or window update of its peer that `mark`, at `index`, left with, if
/// any.
pub(super) fn release<'a>(trace: &Trace<'a>, mark: &Mark, index: usize) -> Option<&'a Mark> {
    let trip = trace.round_trip(mark.by);
    let target = mark.at - trip.floor()?;
    let slack = trip.error() + REACTION;
    let marks = trace.marks.get(..index).unwrap_or_default();
    let from = marks.partition_point(|other| other.at < target - lateness(trace, mark.by));
    let near = marks
        .iter()
        .skip(from)
        .take_while(|other| other.at <= target + slack);
    near.into_iter()
        .find(|other| other.by == mark.by.peer() && lets_go(trace, mark.by, other))
}

/// Returns true if a segment of the peer's makes room for more of `sender`'s: it acknowledges
/// something or widens the window, reports data beyond a hole, or, once something was lost,
/// repeats an acknowledgement (each duplicate takes a segment out of the pipe: RFC 6675 §4,
/// RFC 5681 §3.2).
fn lets_go(trace: &Trace<'_>, sender: Side, other: &Mark) -> bool {
    let is_duplicate = other.data.is_none() && trace.pipe(sender).has_losses;
    other.is_news || other.reports_hole || is_duplicate
}

/// Returns true if `mark`, sent after a full segment, left about a round trip after such an
/// acknowledgement. On a path whose delay varies, it may have waited for that as likely as
/// for its program.
pub(super) fn is_about_a_trip_later(trace: &Trace<'_>, mark: &Mark, index: usize) -> bool {
    let Some(trip) = trace.round_trip(mark.by).floor() else {
        return false;
    };
    let (least, most) = (trip * 7 / 8, trip * 3 / 2);
    let marks = trace.marks.get(..index).unwrap_or_default().iter().rev();
    let mut words = marks.take_while(|other| mark.at.since(other.at) <= most);
    trip >= LEAST_TRIP
        && words.any(|other| {
            let is_word = other.by == mark.by.peer() && other.is_news && other.data.is_none();
            is_word && mark.at.since(other.at) >= least
        })
}

/// Returns the release of `mark` only if it carried nothing else: a message of the peer's is sent
/// by its program.
pub(super) fn bare_release<'a>(trace: &Trace<'a>, mark: &Mark, index: usize) -> Option<&'a Mark> {
    release(trace, mark, index).filter(|ack| ack.data.is_none())
}

/// The acknowledgements and windows that the sender of `mark` had received from its peer just
/// before it let it go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    /// The end of its data that was acknowledged.
    pub(super) acked: u64,
    /// The furthest byte that it was allowed to send; `None` where the scaling is not known.
    pub(super) edge: Option<u64>,
    /// True if the peer's last window was closed.
    pub(super) is_closed: bool,
}

/// Returns what its peer had told the sender of `mark`, leaving out what let it go.
pub(super) fn heard(trace: &Trace<'_>, mark: &Mark, index: usize) -> Option<Heard> {
    let until = mark.at - trace.round_trip(mark.by).floor()? - lateness(trace, mark.by);
    last_word(trace, mark.by.peer(), until, index)
}

/// Returns what the peer had told by the time `mark` passed, on its way or not.
pub(super) fn told(trace: &Trace<'_>, mark: &Mark, index: usize) -> Option<Heard> {
    last_word(trace, mark.by.peer(), mark.at, index)
}

fn last_word(trace: &Trace<'_>, by: Side, until: Timestamp, index: usize) -> Option<Heard> {
    let marks = trace.marks.get(..index).unwrap_or_default();
    let end = marks.partition_point(|mark| mark.at <= until);
    let last = marks
        .get(..end)
        .unwrap_or_default()
        .iter()
        .rev()
        .find(|mark| mark.by == by);
    let (acked, edge, is_closed) = match last {
        Some(last) => (last.ack, last.edge, last.is_closed),
        // The peer has sent nothing since the exchange began.
        None => {
            let mut sent = marks.iter().filter(|mark| mark.by == by.peer());
            sent.find_map(|mark| mark.data)
                .map(|data| (data.acked, data.edge, false))?
        }
    };
    Some(Heard {
        acked,
        edge: (edge > 0).then_some(edge),
        is_closed,
    })
}
