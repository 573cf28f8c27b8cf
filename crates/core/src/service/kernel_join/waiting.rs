//! Turns and passages that wait for the exchange to which they belong.

use std::collections::BTreeMap;

use super::TIMESTAMP_ERROR;
use super::passages::Passages;
use crate::exchange::Exchange;
use crate::observed::flow::Endpoint;
use crate::observed::kernel_span::RequestSpan;
use crate::observed::passage::BytePassage;
use crate::observed::time::Timestamp;
use crate::stats::Merge;

/// Maximum number of turns kept; turns beyond that are dropped.
const MAX_TURNS: usize = 1 << 16;
/// Maximum number of turns kept by a watch without an end: several times as many as are recorded at
/// one time.
const MAX_WATCHED: usize = 1 << 13;

/// Turns by their arrival. The number distinguishes those that arrived at the same time, and rises.
type ByArrival = BTreeMap<(Timestamp, u64), RequestSpan>;

/// Turns by their connection, in the order in which they began, and passages.
#[derive(Debug, Default, Merge)]
pub(crate) struct Waiting {
    /// Turns by the client's address and the server's.
    #[merge(extend)]
    turns: BTreeMap<(Endpoint, Endpoint), ByArrival>,
    /// Number of turns kept.
    count: usize,
    /// Number of turns that were ever kept.
    ever: u64,
    passages: Passages,
}

impl Waiting {
    /// Keeps a passage until the exchanges are known whose bytes passed.
    pub(crate) fn put_passage(&mut self, passage: BytePassage) {
        self.passages.put(passage);
    }

    /// Returns true if there were passages.
    pub(crate) fn has_passages(&self) -> bool {
        self.passages.is_fed()
    }

    /// Returns true if an exchange is none: its connection uses HTTP/2 by the kernel's passages, and
    /// its bytes, which could not be read, were taken for messages in turn.
    pub(crate) fn deny(&self, exchange: &Exchange) -> bool {
        let is_read = exchange.response.positions.is_some() || exchange.signs.stream.is_read;
        !is_read && self.passages.concern(exchange)
    }

    /// Returns the span of an exchange: by its bytes if requests overtake each other on its
    /// connection, otherwise the turn within it, which is taken out.
    pub(crate) fn take_span(&mut self, exchange: &Exchange) -> Option<RequestSpan> {
        match &exchange.response.positions {
            Some(bytes) if self.has_passages() => self.passages.span(exchange, bytes),
            _ => self.take_turn_within(exchange),
        }
    }

    /// Keeps a turn whose exchange is still to come.
    pub(crate) fn put(&mut self, turn: RequestSpan) {
        if self.count >= MAX_TURNS {
            return;
        }
        let turns = self.turns.entry((turn.remote, turn.local)).or_default();
        turns.insert((turn.arrived, self.ever), turn);
        self.count += 1;
        self.ever += 1;
    }

    /// Keeps a turn of a watch without an end. For many turns no exchange is ever shown: when there
    /// is no more room, all are dropped, so that later turns can be joined.
    pub(crate) fn put_watched(&mut self, turn: RequestSpan) {
        if self.count >= MAX_WATCHED {
            self.turns.clear();
            self.count = 0;
        }
        self.put(turn);
    }

    /// Takes out the turn within `exchange`, if there is exactly one and no other turn overlaps it:
    /// several turns belong to requests that overtook each other, or to a response that the client
    /// requested more than once. Older turns, which passed at the host before `exchange` began, are
    /// dropped.
    pub(crate) fn take_turn_within(&mut self, exchange: &Exchange) -> Option<RequestSpan> {
        if self.count == 0 {
            return None;
        }
        let turns = self
            .turns
            .get_mut(&(exchange.id.client, exchange.id.server))?;
        let (begin, end) = (
            exchange.begin - TIMESTAMP_ERROR,
            exchange.end + TIMESTAMP_ERROR,
        );
        while let Some(first) = turns.first_entry() {
            if came(first.get(), begin) >= begin {
                break;
            }
            first.remove();
            self.count -= 1;
        }
        let (_, first) = turns.first_key_value()?;
        let arrived = came(first, begin);
        let is_within = first.sent_last <= end;
        let next = turns.values().nth(1).map(|next| next.arrived);
        let is_alone = next.is_none_or(|next| next >= exchange.end);
        if !is_within || !is_alone {
            return None;
        }
        self.count -= 1;
        let (_, turn) = turns.pop_first()?;
        Some(RequestSpan { arrived, ..turn })
    }
}

/// Returns the time at which a request arrived by its packets' timestamps. In a capture, that is
/// when the driver handed them over; where the kernel shows segments, when its stack took them up.
/// The latter may be much later, and the time in between is not part of the exchange.
fn came(turn: &RequestSpan, begin: Timestamp) -> Timestamp {
    match turn.entered {
        Some(entered) if turn.arrived < begin => entered.max(turn.arrived),
        _ => turn.arrived,
    }
}
