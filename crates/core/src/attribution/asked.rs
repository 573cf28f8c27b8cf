//! A gap within a response in which the client sent more of its side of the exchange.

use super::Tiler;
use super::attributed::Gap;
use crate::attribution::packet::Arrival;
use crate::attribution::packet_record::PacketRecord;
use crate::exchange::Side;
use crate::exchange::wait::{Bound, Owner, WaitKind};

impl Tiler<'_> {
    /// Attributes the gap between two parts of a response if the client sent data in between that
    /// begins no other request, and returns true if it did: the server has nothing to send until
    /// that data arrives, as when a login takes several messages.
    pub(super) fn awaited_client(
        &mut self,
        before: &PacketRecord,
        packet: &PacketRecord,
        index: usize,
        gap: &Gap,
    ) -> bool {
        let trace = self.trace;
        let is_pause = matches!(gap.wait, Some((WaitKind::ServerPause, _)));
        if packet.by != Side::Server || !is_pause {
            return false;
        }
        let is_more = |other: &&PacketRecord| {
            let data = other.data.filter(|_| other.by == Side::Client);
            data.is_some_and(|data| {
                data.arrival == Arrival::InOrder
                    && data.span.start >= trace.request.end
                    && data.span.end <= trace.after.next_request
            })
        };
        let Some(asked) = trace.between(before, index).iter().rfind(is_more) else {
            return false;
        };
        let has_part = before.data.is_some_and(|data| asked.ack >= data.span.end);
        let trips = (trace.trips.client.floor(), trace.trips.server.floor());
        let (Some(back), Some(out), true) = (trips.0, trips.1, has_part) else {
            let (kind, owner) = (WaitKind::Unknown, Owner::Unknown);
            let number = Some(packet.number);
            self.push(packet.at, kind, owner, number, Bound::Observed);
            return true;
        };
        // These propagations are parts of transferring the response, as they are of a response in
        // segments that are acknowledged one by one.
        let path = |tiler: &mut Self, until, number| {
            let (kind, owner) = (WaitKind::ResponseTransfer, Owner::Path);
            tiler.push(until, kind, owner, number, Bound::Observed);
        };
        path(self, (before.at + back).min(asked.at), None);
        let (kind, number) = (WaitKind::Unknown, Some(asked.number));
        self.push(asked.at, kind, Owner::Client, number, Bound::Observed);
        let out = out.min(packet.at.since(asked.at));
        path(self, asked.at + out / 2, None);
        let inferred = Bound::Inferred(trace.trips.server.split_error());
        let (kind, until) = (WaitKind::ServerThink, packet.at - (out - out / 2));
        self.push(until, kind, Owner::Server, None, inferred);
        path(self, packet.at, Some(packet.number));
        true
    }
}
