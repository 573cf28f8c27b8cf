//! A response on a connection that carries others meanwhile (HTTP/2): what held all of them
//! back held it too, and is no thinking of the server's.

use core::time::Duration;

use super::flow::Flow;
use super::{REORDERING, Tiler, Trace, gap};
use crate::connection::half::Arrival;
use crate::connection::repeats::Need;
use crate::exchange::Side;
use crate::mark::Mark;
use crate::time::Timestamp;
use crate::wait::{Bound, Owner, WaitKind};

/// Segments of others between a request and its response that are looked at; behind more of
/// them it is not told what held the response back.
const MAX_OTHERS: usize = 128;

/// The state of a sender's socket buffer, by a gap in its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buffer {
    /// Nothing held the sender back: it had nothing to send, so the response was not there yet.
    Empty,
    /// More was there than could be sent.
    Full,
    /// Either.
    Untold,
}

impl Buffer {
    fn after(kind: WaitKind, gap: Duration) -> Self {
        match kind {
            WaitKind::ServerPause | WaitKind::ServerThink => Self::Empty,
            WaitKind::WindowFull
            | WaitKind::CongestionWindow
            | WaitKind::SendBuffer
            | WaitKind::Paced
            | WaitKind::Recovery => Self::Full,
            WaitKind::ResponseTransfer if gap > REORDERING => Self::Full,
            _ => Self::Untold,
        }
    }
}

impl Tiler<'_> {
    /// Names the time up to `first` where the server's other responses were held back before
    /// it: its bytes stand in line with theirs, so only up to the last instant at which
    /// nothing was left to send the server is known to have thought. Returns false where
    /// that tells nothing.
    pub(super) fn held_with_others(&mut self, from: Timestamp, first: &Mark) -> bool {
        let trace = self.trace;
        let Some(travel) = trace.to_server.floor() else {
            return false;
        };
        let asked = from + travel;
        if others(trace, asked, first).nth(MAX_OTHERS).is_some() {
            return false;
        }
        let (mut free, mut is_held) = (asked, false);
        for (index, before, mark) in others(trace, asked, first) {
            let gap = mark.at.since(before.at);
            let kind = gap::name(trace, &Flow::default(), before, mark, index).wait;
            match kind.map_or(Buffer::Untold, |(kind, _)| Buffer::after(kind, gap)) {
                Buffer::Empty => (free, is_held) = (mark.at, false),
                Buffer::Full => is_held = true,
                Buffer::Untold => {}
            }
        }
        if !is_held {
            return false;
        }
        let (path, inferred) = (Owner::Path, Bound::Inferred(trace.to_server.split_error()));
        self.push(from + travel / 2, WaitKind::RoundTrip, path, None, inferred);
        let think = WaitKind::ServerThink;
        self.push(free - travel / 2, think, Owner::Server, None, inferred);
        self.push(free, WaitKind::RoundTrip, path, None, inferred);
        for (index, before, mark) in others(trace, free, first) {
            let wait = gap::name(trace, &Flow::default(), before, mark, index).wait;
            let (kind, owner) = wait.unwrap_or((WaitKind::ResponseTransfer, path));
            self.push(mark.at, kind, owner, Some(mark.number), Bound::Observed);
        }
        true
    }
}

/// The server's segments of other responses and of this one up to `first`, each behind the one
/// before and later than `since`, with its place among the marks.
fn others<'t>(
    trace: &'t Trace<'_>,
    since: Timestamp,
    first: &Mark,
) -> impl Iterator<Item = (usize, &'t Mark, &'t Mark)> {
    let (number, start) = (first.number, first.data.map_or(0, |data| data.span.start));
    let counts = move |mark: &Mark| {
        let is_other = mark.data.is_some_and(|data| {
            let is_sent = !matches!(data.arrival, Arrival::Copy | Arrival::KeepAlive);
            is_sent && data.need != Need::Spurious && data.span.end <= start
        });
        mark.by == Side::Server && (is_other || mark.number == number)
    };
    let until = first.at;
    let marks = trace.marks.iter().enumerate();
    let sent = marks.filter(move |(_, mark)| mark.at <= until && counts(mark));
    let pairs = sent.scan(None, |last: &mut Option<&'t Mark>, (index, mark)| {
        Some((index, last.replace(mark), mark))
    });
    pairs.filter_map(move |(index, before, mark)| {
        let before = before.filter(|_| mark.at > since)?;
        Some((index, before, mark))
    })
}
