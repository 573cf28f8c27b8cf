//! Exchanges and connections that closed, before they are passed to a sink.

use crate::connection::Watched;
use crate::exchange::Exchange;
use crate::protocol::quic;

/// A closed exchange or connection to deliver to a sink.
#[derive(Debug)]
pub(super) struct ClosedRecord {
    /// Number of the packet that closed the item. At the end of the input, it is the number of the
    /// connection's first packet.
    pub(super) ordinal: u64,
    pub(super) item: ClosedItem,
}

#[derive(Debug)]
pub(super) enum ClosedItem {
    Exchange(Box<Exchange>),
    Connection(Watched),
    Quic(Box<quic::QuicFlow>),
}

/// Exchanges and connections that closed, as a worker returns them.
#[derive(Debug, Default)]
pub struct ClosedBatch(pub(super) Vec<ClosedRecord>);
