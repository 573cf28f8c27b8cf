//! Fragments of TCP segments.
//!
//! The first fragment has the headers; each of the others counts as a segment
//! of its own that goes on where the first one's payload ended, so that every
//! byte is known to its flow. No payload is kept.

use core::net::IpAddr;
use std::collections::VecDeque;

use super::ip::{Datagram, Fragment};
use crate::segment::{Segment, TcpFlags};

/// Fragmented segments remembered at a time: their other fragments follow soon.
const MAX_SEGMENTS: usize = 64;

/// The segments whose later fragments may still come.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    heads: VecDeque<Head>,
}

/// The begin of a fragmented segment.
#[derive(Debug)]
struct Head {
    ends: (IpAddr, IpAddr),
    id: u32,
    segment: Segment,
    /// Which flags belong to the segment's end.
    last_flags: TcpFlags,
    /// Where in the packet the payload begins.
    payload_at: u32,
}

impl Fragments {
    /// The first fragment as a segment of what it holds: what its flags say of
    /// the segment's end belongs to the last one.
    pub(super) fn begin(&mut self, mut segment: Segment, datagram: &Datagram<'_>) -> Segment {
        let Some(part) = datagram.fragment.filter(|part| !part.is_last) else {
            return segment;
        };
        let header_len = datagram.payload_len.saturating_sub(segment.payload_len);
        let of_end = TcpFlags::FIN.with(TcpFlags::PSH);
        let last_flags = TcpFlags(segment.flags.0 & of_end.0);
        segment.flags = TcpFlags(segment.flags.0 & !of_end.0);
        if self.heads.len() == MAX_SEGMENTS {
            self.heads.pop_front();
        }
        self.heads.push_back(Head {
            ends: (datagram.source, datagram.destination),
            id: part.id,
            segment,
            last_flags,
            payload_at: part.offset.saturating_add(header_len),
        });
        segment
    }

    /// A later fragment as a segment; `None` where its first one was not seen.
    pub(super) fn go_on(&mut self, datagram: &Datagram<'_>, part: Fragment) -> Option<Segment> {
        let ends = (datagram.source, datagram.destination);
        let is_its = |head: &&Head| head.ends == ends && head.id == part.id;
        let head = self.heads.iter().rev().find(is_its)?;
        let skipped = part.offset.checked_sub(head.payload_at)?;
        let mut segment = head.segment;
        segment.seq = segment.seq.wrapping_add(skipped);
        segment.payload_len = datagram.payload_len;
        segment.ip = datagram.facts;
        if part.is_last {
            segment.flags = segment.flags.with(head.last_flags);
        }
        Some(segment)
    }
}
