//! Turns that wait for the exchange that they belong to.

use std::collections::{BTreeMap, VecDeque};

use super::STAMPS;
use crate::exchange::Exchange;
use crate::flow::Endpoint;
use crate::turn::ServedTurn;

/// Turns kept; those beyond are left out.
const MAX_TURNS: usize = 1 << 16;

/// Turns by their connection, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// By the asking end and the answering one.
    turns: BTreeMap<(Endpoint, Endpoint), VecDeque<ServedTurn>>,
    count: usize,
}

impl Waiting {
    /// Keeps a turn whose exchange is still to come.
    pub(crate) fn put(&mut self, turn: ServedTurn) {
        if self.count >= MAX_TURNS {
            return;
        }
        let turns = self.turns.entry((turn.remote, turn.local)).or_default();
        let at = turns.partition_point(|other| other.arrived <= turn.arrived);
        turns.insert(at, turn);
        self.count += 1;
    }

    /// The turn within `exchange`, where there is one and no other that
    /// overlaps it: several are of requests that overtook each other, or of an
    /// answer that the client asked for more than once. What is older goes.
    pub(crate) fn take(&mut self, exchange: &Exchange) -> Option<ServedTurn> {
        if self.count == 0 {
            return None;
        }
        let turns = self.turns.get_mut(&(exchange.client, exchange.server))?;
        let (begin, end) = (exchange.begin - STAMPS, exchange.end + STAMPS);
        let passed = turns.partition_point(|turn| turn.arrived < begin);
        turns.drain(..passed);
        self.count -= passed;
        let first = turns.front()?;
        let is_within = first.arrived >= begin && first.sent_last <= end;
        let next = turns.get(1).map(|next| next.arrived);
        let is_alone = next.is_none_or(|next| next >= exchange.end);
        if !is_within || !is_alone {
            return None;
        }
        self.count -= 1;
        turns.pop_front()
    }

    /// Takes over what another one keeps: of other connections.
    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.turns.extend(other.turns);
    }
}
