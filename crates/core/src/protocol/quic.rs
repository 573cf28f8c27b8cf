//! Properties of QUIC that are visible without keys: the packets of its handshake, and the latency
//! spin bit (RFC 8999, RFC 9000, RFC 9312).
//!
//! The input is the UDP datagrams of all flows, in the order of one observation point. The output
//! is the flows that are certainly QUIC, because their first Initial was seen. A flow captured from
//! its middle cannot be distinguished from other datagrams.
#![allow(
    clippy::vec_box,
    reason = "flows are boxed in their table and handed on as they are"
)]

mod flow;
mod header;
mod spin;
#[cfg(test)]
mod tests;

use core::time::Duration;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

pub(crate) use flow::{QuicFlow, Sent};

use crate::observed::datagram::Datagram;
use crate::observed::event::PointId;
use crate::observed::flow::FlowKey;
use crate::observed::time::Timestamp;

/// Maximum number of flows followed at one time.
const MAX_FLOWS: usize = 16 * 1024;
/// The time after which an idle flow is dropped: twice the usual idle timeout of implementations
/// (30 s).
const IDLE: Duration = Duration::from_secs(60);

/// QUIC flows in progress.
#[derive(Debug)]
pub(crate) struct Flows {
    open: HashMap<(PointId, FlowKey), Box<QuicFlow>, SeedableRandomState>,
    begun_since_sweep: usize,
}

impl Flows {
    pub(crate) fn new(hasher: SeedableRandomState) -> Self {
        Self {
            open: HashMap::with_hasher(hasher),
            begun_since_sweep: 0,
        }
    }

    /// Processes a datagram. If there is no room, flows that have been idle for long are moved to
    /// `closed`. If the datagram begins a QUIC flow, `stream` is the flow's number.
    pub(crate) fn observe_datagram(
        &mut self,
        datagram: &Datagram,
        payload: &[u8],
        stream: Option<u32>,
        closed: &mut Vec<Box<QuicFlow>>,
    ) {
        let key = (datagram.point, datagram.flow);
        if let Some(flow) = self.open.get_mut(&key) {
            flow.observe_datagram(datagram, payload);
            return;
        }
        if let Some(flow) = QuicFlow::begin(datagram, payload, stream) {
            self.begun_since_sweep += 1;
            if self.open.len() >= MAX_FLOWS {
                self.sweep(datagram.at, closed);
            }
            if self.open.len() < MAX_FLOWS {
                self.open.insert(key, Box::new(flow));
            }
        }
    }

    /// Returns all remaining flows, in the order in which they began.
    pub(crate) fn finish(&mut self) -> Vec<Box<QuicFlow>> {
        let mut rest: Vec<Box<QuicFlow>> = self.open.drain().map(|(_, flow)| flow).collect();
        rest.sort_by_key(|flow| (flow.first, flow.point, flow.packets.first));
        rest
    }

    /// Drops idle flows. This happens only after an eighth of all flows has begun, with or without
    /// room, so that the cost per flow is small.
    fn sweep(&mut self, now: Timestamp, closed: &mut Vec<Box<QuicFlow>>) {
        if self.begun_since_sweep < MAX_FLOWS / 8 {
            return;
        }
        self.begun_since_sweep = 0;
        let idle = self.open.extract_if(|_, flow| now.since(flow.last) > IDLE);
        let mut idle: Vec<Box<QuicFlow>> = idle.map(|(_, flow)| flow).collect();
        idle.sort_by_key(|flow| (flow.first, flow.point, flow.packets.first));
        closed.append(&mut idle);
    }
}
