//! The first flight of a sender: its initial window, if it can be determined.

use core::time::Duration;

use crate::attribution::packet::Span;
use crate::observed::time::Timestamp;

/// Minimum round trip: on shorter paths the first flight cannot be separated from what follows.
const LEAST_TRIP: Duration = Duration::from_millis(1);

/// Bytes that a sender sent before its first data could be acknowledged (RFC 6928: ten segments).
///
/// The bytes equal the initial window only if the flight ended with a full segment and more
/// followed as soon as the acknowledgements arrived. Otherwise there was no more to send, and the
/// window is at least as large.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FirstFlight {
    begun: Option<Timestamp>,
    last: Option<Timestamp>,
    bytes: u32,
    ends_small: bool,
    state: State,
}

/// A passing piece of data.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassingPiece {
    pub(super) at: Timestamp,
    pub(super) span: Span,
    /// True if the piece ends with a partial segment.
    pub(super) is_small: bool,
    /// True if the piece is the next one in the stream.
    pub(super) is_next: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Growing,
    /// The flight ended at the window's limit.
    Held,
    /// The flight ended because there was no more data.
    Exhausted,
    /// The capture does not show the flight's end.
    Untold,
}

impl FirstFlight {
    /// Takes in a passing piece of data; `trip` is the whole round trip.
    #[inline]
    pub(super) fn add_piece(&mut self, piece: PassingPiece, trip: Option<Duration>) {
        if self.state == State::Growing {
            self.grow(piece, trip);
        }
    }

    fn grow(&mut self, piece: PassingPiece, trip: Option<Duration>) {
        let at = piece.at;
        let Some(trip) = trip.filter(|&trip| trip >= LEAST_TRIP) else {
            self.state = State::Untold;
            return;
        };
        let begun = *self.begun.get_or_insert(at);
        let gap = at.since(self.last.replace(at).unwrap_or(at));
        let is_first = self.bytes == 0;
        if (is_first && piece.span.start != 0) || !piece.is_next {
            self.state = State::Untold;
        } else if at.since(begun) * 4 < trip * 3 {
            let bytes = u32::try_from(piece.span.end).unwrap_or(u32::MAX);
            (self.bytes, self.ends_small) = (bytes, piece.is_small);
        } else if gap * 4 < trip {
            // The flight continues without a gap: a slow link stretched it.
            self.state = State::Untold;
        } else {
            let is_prompt = at.since(begun) < trip * 2;
            self.state = if is_prompt && !self.ends_small {
                State::Held
            } else {
                State::Exhausted
            };
        }
    }

    /// Records that the other end sent data, so what follows is another turn.
    #[inline]
    pub(super) fn answered(&mut self) {
        if self.state == State::Growing && self.bytes > 0 {
            self.state = State::Exhausted;
        }
    }

    /// Returns the bytes, and true if the window may be larger.
    pub(super) fn window(&self) -> Option<(u32, bool)> {
        let is_told = self.state != State::Untold && self.bytes > 0;
        is_told.then_some((self.bytes, self.state != State::Held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the window after full segments of 1000 bytes at these milliseconds on a path of 20
    /// ms; the segment at index `small` is small.
    fn window(millis: &[i64], small: Option<usize>) -> Option<(u32, bool)> {
        let mut flight = FirstFlight::default();
        for (index, &ms) in millis.iter().enumerate() {
            let start = index as u64 * 1000;
            let end = start + 1000;
            let span = Span { start, end };
            let piece = PassingPiece {
                at: Timestamp::from_nanos(ms * 1_000_000),
                span,
                is_small: small == Some(index),
                is_next: true,
            };
            flight.add_piece(piece, Some(Duration::from_millis(20)));
        }
        flight.window()
    }

    #[test]
    fn a_flight_that_acknowledgements_extend_is_the_window() {
        assert_eq!(window(&[0, 0, 1, 20, 20], None), Some((3000, false)));
    }

    #[test]
    fn a_flight_that_ends_small_or_that_nothing_follows_is_a_lower_bound() {
        assert_eq!(window(&[0, 0, 1, 20], Some(2)), Some((3000, true)));
        assert_eq!(window(&[0, 0], None), Some((2000, true)));
        assert_eq!(window(&[0, 0, 500], None), Some((2000, true)));
    }

    #[test]
    fn a_slow_link_hides_it() {
        assert_eq!(window(&[0, 4, 8, 12, 16, 20, 24], None), None);
    }
}
