//! The time between a request's head and a body that waited for permission (`100 Continue`).

use super::Tiler;
use super::attributed::Gap;
use crate::attribution::packet::Arrival;
use crate::attribution::packet_record::PacketRecord;
use crate::exchange::wait::{Bound, Owner, WaitKind};
use crate::exchange::{Expectation, Side};
use crate::observed::packet::{PacketNumber, PacketTime};

impl Tiler<'_> {
    /// Attributes the gap where the request stopped for `100 Continue` (RFC 9110 §10.1.1), and
    /// returns true if that was the reason. A gap caused in part by loss or by the capture keeps
    /// its attribution.
    pub(super) fn awaited_leave(
        &mut self,
        before: &PacketRecord,
        packet: &PacketRecord,
        gap: &Gap,
    ) -> bool {
        let trace = self.trace;
        let (Some(first), Some(second)) = (before.data, packet.data) else {
            return false;
        };
        let is_there = trace.permission.expects_at.is_some_and(|head| {
            packet.by == Side::Client && first.span.end == head && second.span.start == head
        });
        let is_clear = second.arrival == Arrival::InOrder
            && gap.recovery.is_none()
            && gap.wait.is_some_and(|(kind, _)| kind != WaitKind::Unknown);
        let Some(propagation) = trace.trips.server.floor().filter(|_| is_there && is_clear) else {
            return false;
        };
        let back = trace.trips.client.floor().unwrap_or_default();
        let answer = trace
            .permission
            .interim
            .filter(|answer| answer.at > before.at && answer.at <= packet.at);
        self.tiling.expectation = Some(Box::new(Expectation {
            waited: packet.at.since(before.at),
            is_answered: answer.is_some(),
            propagation: propagation + back,
            packet: packet.number,
        }));
        if let Some(PacketTime { at, number }) = answer {
            let number = number.map(PacketNumber::get);
            let propagation = propagation.min(at.since(before.at));
            let inferred = Bound::Inferred(trace.trips.server.split_error());
            // The permission's propagation is part of transferring the request.
            let (sending, server) = (WaitKind::RequestTransfer, WaitKind::ServerThink);
            self.push(
                before.at + propagation / 2,
                sending,
                Owner::Path,
                None,
                inferred,
            );
            self.push(at - propagation / 2, server, Owner::Server, None, inferred);
            self.push(at, sending, Owner::Path, number, inferred);
            self.push(
                (at + back).min(packet.at),
                sending,
                Owner::Path,
                None,
                inferred,
            );
        }
        let (pause, released) = (WaitKind::RequestPause, Some(packet.number));
        self.push(packet.at, pause, Owner::Client, released, Bound::Observed);
        true
    }
}
