//! Features of an exchange. Rules select exchanges by them. They are determined once per exchange,
//! so a rule never sees an exchange that cannot change its state.

use crate::exchange::wait::WaitKind;
use crate::exchange::{Disorder, Exchange, Loss, Outcome, Seldom, Sending};
use crate::observed::tcp::TCP_RTO_MIN;
use crate::protocol::http::status::StatusMeaning;

/// A set of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features(u64);

/// The first bit of the features for kinds of wait.
const WAITS: u32 = 32;

impl Features {
    /// A feature that every exchange has.
    pub(crate) const ANY: Self = Self(1);
    /// The exchange contains a repaired loss.
    pub(crate) const RECOVERIES: Self = Self(1 << 1);
    /// Segments were out of order or duplicated.
    pub(crate) const DISORDER: Self = Self(1 << 2);
    /// A small segment followed a small segment.
    pub(crate) const HOLDS: Self = Self(1 << 3);
    /// A message stalled.
    pub(crate) const DELIVERIES: Self = Self(1 << 4);
    /// Full segments were lost every time, and smaller ones arrived.
    pub(crate) const NARROW: Self = Self(1 << 5);
    /// The exchange is the first of its connection.
    pub(crate) const FIRST: Self = Self(1 << 6);
    /// The exchange paid for the setup of its connection.
    pub(crate) const SETUP: Self = Self(1 << 7);
    /// A TLS handshake preceded the exchange.
    pub(crate) const HANDSHAKE: Self = Self(1 << 8);
    /// The response began with a TLS record.
    pub(crate) const FIRST_RECORD: Self = Self(1 << 9);
    /// One of the ends asked to close the connection.
    pub(crate) const CLOSING: Self = Self(1 << 10);
    /// The connection was idle before the exchange for so long that it may have been dead.
    pub(crate) const IDLE: Self = Self(1 << 11);
    /// Only the close of the connection showed the end of the response.
    pub(crate) const CLOSE_WAIT: Self = Self(1 << 12);
    /// The request had `Expect: 100-continue`.
    pub(crate) const EXPECTATION: Self = Self(1 << 13);
    /// The exchange has no complete response.
    pub(crate) const FAILED: Self = Self(1 << 14);
    /// The response is in another protocol.
    pub(crate) const FOREIGN: Self = Self(1 << 15);

    /// The server's kernel recorded that it dropped packets of the exchange.
    pub(crate) const DROPS: Self = Self(1 << 16);
    /// A part of the path is beyond the capture point.
    pub(crate) const BEYOND: Self = Self(1 << 17);

    /// The response reports an error.
    pub(crate) const ERROR: Self = Self(1 << 18);

    /// The response's segments or their acknowledgements were packed oddly.
    pub(crate) const PACKING: Self = Self(1 << 19);
    /// The client retransmitted the request.
    pub(crate) const REPEATED: Self = Self(1 << 20);
    /// The response queued before the capture point.
    pub(crate) const QUEUED: Self = Self(1 << 21);
    /// The exchange took at least as long as the shortest timer of retransmissions.
    pub(crate) const LONG: Self = Self(1 << 22);

    /// Returns the feature of a wait of this kind.
    pub(crate) const fn wait(kind: WaitKind) -> Self {
        Self(1 << (WAITS + kind as u32))
    }

    /// Returns the set of all features of both sets.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns this set if `is_there` is true, and the empty set otherwise.
    const fn only_if(self, is_there: bool) -> Self {
        Self(self.0 * is_there as u64)
    }

    /// Returns true if both sets have a feature in common.
    pub(crate) const fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Returns the features of `exchange`.
    pub(crate) fn of(exchange: &Exchange) -> Self {
        let (particulars, signs) = (&exchange.particulars, &exchange.signs);
        let closing = exchange.particulars.closing;
        let is_whole = matches!(exchange.outcome, Outcome::Complete(_));
        let is_closing = closing.client_asked || closing.server_asked;
        let there = [
            Self::of_loss(&exchange.loss),
            Self::of_sending(&exchange.sending),
            Self::PACKING.only_if(!exchange.response.packing.is_vacant()),
            Self::REPEATED.only_if(signs.request_repeats > 0),
            Self::QUEUED.only_if(!exchange.path.queued.response.is_zero()),
            Self::LONG.only_if(exchange.latency() >= TCP_RTO_MIN),
            Self::BEYOND.only_if(!exchange.path.to_client.is_zero()),
            Self::FIRST.only_if(exchange.id.ordinal == 0),
            Self::SETUP.only_if(exchange.connecting.setup.is_some()),
            Self::HANDSHAKE.only_if(exchange.connecting.handshake.is_some()),
            Self::FIRST_RECORD.only_if(exchange.response.first_record.is_some()),
            Self::CLOSING.only_if(is_closing),
            Self::IDLE.only_if(exchange.staleness().is_some()),
            Self::CLOSE_WAIT.only_if(particulars.close_wait.is_some()),
            Self::EXPECTATION.only_if(particulars.expectation.is_some()),
            Self::FAILED.only_if(!is_whole),
            Self::FOREIGN.only_if(signs.foreign.is_some()),
            Self::ERROR.only_if(is_error(exchange.outcome)),
        ];
        let waits = exchange.waits.iter().map(|wait| Self::wait(wait.kind));
        there.into_iter().chain(waits).fold(Self::ANY, Self::or)
    }

    fn of_loss(loss: &Seldom<Loss>) -> Self {
        if loss.is_vacant() {
            return Self(0);
        }
        Self::RECOVERIES
            .only_if(!loss.recoveries.is_empty())
            .or(Self::DISORDER.only_if(loss.disorder != Disorder::NONE))
            .or(Self::NARROW.only_if(loss.mtu.is_some()))
            .or(Self::DROPS.only_if(loss.drops.is_some()))
    }

    fn of_sending(sending: &Seldom<Sending>) -> Self {
        if sending.is_vacant() {
            return Self(0);
        }
        Self::HOLDS
            .only_if(!sending.holds.is_empty())
            .or(Self::DELIVERIES.only_if(!sending.deliveries.is_empty()))
    }
}

fn is_error(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Complete(Some(status)) => StatusMeaning::of(status).is_some(),
        outcome => matches!(outcome, Outcome::Failed(_)),
    }
}

#[cfg(test)]
mod tests;
