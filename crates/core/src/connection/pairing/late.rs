//! Records that a server sends long after a response, under TLS: the rest of the response, or something
//! of its own, such as a heartbeat or a PING of HTTP/2, that nobody asked for and no client waits for.
//!
//! The client's reaction tells them apart. A client that waited for the rest goes on at once. It
//! replies to a heartbeat with something smaller than a request, or does nothing.

use core::time::Duration;

use super::turns::LULL;
use super::{Draft, Pairing};
use crate::attribution::packet::Span;
use crate::attribution::packet_record::PacketKey;
use crate::connection::View;
use crate::observed::packet::PacketTime;
use crate::observed::time::Timestamp;

/// Maximum length of a record that may hold a heartbeat: a few words, with a time and a name.
const MOST_HEARTBEAT: u16 = 160;

/// Maximum length of a record that may hold only unprompted control data of a protocol: two updates
/// of HTTP/2's windows up to TLS 1.2, or anything shorter.
pub(super) const MOST_CONTROL: u16 = 50;

/// The server's records that belong to no response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unasked {
    /// The end of the last record that is not a response to any request.
    pub(super) end: u64,
    /// A record that may be no part of the open response.
    late: Option<LateRecord>,
    /// The length of the shortest request so far.
    pub(super) shortest_request: Option<u16>,
    /// True if the client went on after a response that nothing followed late.
    has_plain_end: bool,
}

/// A lone short record that came long after the response before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LateRecord {
    /// The response without it.
    response: Span,
    last: PacketTime,
    /// The latest such record.
    at: Timestamp,
    length: u16,
    end: u64,
    /// The time in which a client that waited for it reacts.
    reaction: Duration,
}

/// The event that follows a late record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// A record of the client that may be a request, of this length.
    Request(u16),
    /// A control frame of HTTP/2 from the client, of this length.
    Control(u16),
    /// The connection's end.
    End,
}

/// Takes in a record of a server: it may be late, or continue a late one, which then is a part of the
/// response.
pub(super) fn note_late(
    unasked: &mut Unasked,
    draft: &Draft,
    (length, record): (u16, Span),
    packet: &PacketKey,
    view: &View<'_>,
) {
    let trips = [view.to_client().floor(), view.to_server().floor()];
    let limit = LULL + trips.into_iter().flatten().sum::<Duration>() * 2;
    let is_lone = length <= MOST_HEARTBEAT && packet.start == record.start;
    let is_late = packet.at.since(draft.last.at) > limit && packet.idle > LULL;
    let before = unasked.late.map_or((draft.response, draft.last), |late| {
        (late.response, late.last)
    });
    unasked.late = (draft.has_response() && is_lone && is_late).then(|| LateRecord {
        response: before.0,
        last: before.1,
        at: packet.at,
        length,
        end: record.end,
        reaction: view.to_client().floor().unwrap_or_default() + LULL,
    });
}

impl Pairing {
    /// Decides what the late record after the open response is, now that `next` follows at `at`.
    pub(super) fn settle_late(&mut self, unasked: &mut Unasked, at: Timestamp, next: Next) {
        let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) else {
            return;
        };
        let is_short = |length: u16| {
            let shortest = unasked.shortest_request;
            length <= MOST_CONTROL && shortest.is_some_and(|shortest| length < shortest)
        };
        let Some(late) = unasked.late else {
            let goes_on = matches!(next, Next::Request(length) if !is_short(length));
            unasked.has_plain_end |= goes_on && draft.has_response();
            return;
        };
        let is_direct = at.since(late.at) <= late.reaction;
        let is_reply = is_direct
            && match next {
                Next::Request(length) => is_short(length),
                // The acknowledgement of a PING is as long as the PING (RFC 9113 §6.7).
                Next::Control(length) => length == late.length,
                Next::End => false,
            };
        if !is_reply && matches!(next, Next::Control(_)) {
            return;
        }
        unasked.late = None;
        if is_reply || (!is_direct && unasked.has_plain_end) {
            (draft.response, draft.last) = (late.response, late.last);
            unasked.end = late.end;
            self.turn.is_unasked = true;
        } else if !is_direct && late.length <= MOST_CONTROL {
            draft.signs.doubts.is_rest_unasked = true;
        }
    }
}
