//! The rule of the cause `tiny-writes`.
//!
//! Many small segments are in flight at the same time. Nagle's algorithm forbids that, so it is not
//! the cause. A stop begins with ten or more segments in flight and ends with an ACK. A pause of
//! the program would not.

use core::time::Duration;

use super::Id;
use super::limited::{Congestion, LimitRule, Limited, congestion};
use super::wording::Wording;
use crate::exchange::delivery::Delivery;

/// The evidence in the packets.
const SEEN: &str = "the {from} sent {whole} in {segments} segments; with {most_segments} of them \
    in flight its congestion window was full, and the rest left with the first ACKs";

const WORDING: Wording = Wording {
    summary: "The {from} writes its {message} in tiny pieces with TCP_NODELAY. The congestion \
        window counts segments, so it is full of them and the rest waits a round trip: {cost}.",
    ruled_out: &[(
        Id::NagleRoundTrip,
        "small segments left while earlier small ones were unacknowledged: Nagle's algorithm is \
         off",
    )],
    overturned_by: "the {from}'s trace showing one write for the whole {message}",
    fix: &[
        (
            "{from}",
            "write into a buffer (BufWriter, BufferedOutputStream, bufio) and flush it once",
        ),
        (
            "{from}",
            "or gather the pieces: writev(2), or MSG_MORE on all but the last",
        ),
    ],
};

/// Watches messages that fill the congestion window with tiny segments.
pub(crate) type Rule = Limited<TinyPieces>;

#[derive(Clone, Debug, Default)]
pub(crate) struct TinyPieces;

impl LimitRule for TinyPieces {
    const ID: Id = Id::TinyWrites;

    fn cost(delivery: &Delivery) -> Option<Duration> {
        (congestion(delivery) == Some(Congestion::TinyWrites)).then_some(delivery.stalled.stopped)
    }

    fn words(_: &Delivery) -> (&'static str, &'static Wording) {
        (SEEN, &WORDING)
    }
}
