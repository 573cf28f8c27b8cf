//! `tiny-writes`.
//!
//! Told from Nagle's algorithm by many small segments in flight at once, which
//! that forbids; from a pause of the program by what ends the stop: an ACK,
//! once ten or more segments are in flight.

use core::time::Duration;

use super::evidence::{fix, ruled_out};
use super::limited::{
    Congestion, Kind, Limited, Messages, bytes, congestion, found, message, name, share,
};
use super::{Case, Id};
use crate::delivery::Delivery;
use crate::exchange::Side;
use crate::report::Finding;

/// Watches messages that fill the congestion window with tiny segments.
pub(crate) type Rule = Limited<TinyPieces>;

#[derive(Clone, Debug, Default)]
pub(crate) struct TinyPieces;

impl Kind for TinyPieces {
    fn cost(delivery: &Delivery) -> Option<Duration> {
        (congestion(delivery) == Some(Congestion::TinyWrites)).then_some(delivery.stopped)
    }

    fn finding(case: &Case<'_>, sender: Side, messages: &Messages, worst: &Delivery) -> Finding {
        let from = name(sender);
        let seen = format!(
            "the {from} sent {} in {} segments; with {} of them in flight its congestion window was \
             full, and the rest left with the first ACKs",
            bytes(worst.bytes),
            worst.segments,
            worst.most_segments
        );
        let mut finding = found(Id::TinyWrites, sender, case, messages, worst, seen);
        finding.summary = format!(
            "The {from} writes its {} in tiny pieces with TCP_NODELAY. The congestion window counts \
             segments, so it is full of them and the rest waits a round trip: {}.",
            message(sender),
            share(messages, &finding)
        );
        finding.ruled_out.push(ruled_out(
            Id::NagleRoundTrip,
            "small segments left while earlier small ones were unacknowledged: Nagle's algorithm is off",
        ));
        finding.overturned_by = format!(
            "the {from}'s trace showing one write for the whole {}",
            message(sender)
        );
        finding.fix = vec![
            fix(
                from,
                "write into a buffer (BufWriter, BufferedOutputStream, bufio) and flush it once",
            ),
            fix(
                from,
                "or gather the pieces: writev(2), or MSG_MORE on all but the last",
            ),
        ];
        finding
    }
}
