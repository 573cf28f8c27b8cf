//! The most common kind of segment, read without a loop over headers.

use core::net::Ipv4Addr;

use super::ip::protocol;
use super::tcp;
use super::{Packet, Record, link};
use crate::observed::event::PointId;
use crate::observed::flow::{FlowKey, Transport};
use crate::observed::segment::{IpFacts, Segment, TcpFlags, TcpOptions};
use crate::observed::time::Timestamp;

/// First byte of a plain header: version 4 and a length of five words, without options.
const PLAIN_V4: u8 = 0x45;
/// The bits that are set only in a fragment, in the field of flags and offset.
const FRAGMENT: u16 = 0x3fff;
/// The flag "don't fragment", in the upper byte of the field of flags and offset.
const DONT_FRAGMENT: u8 = 0x40;

/// A segment in an unfragmented IPv4 packet without IP options, whose headers were captured
/// completely.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain<'a> {
    ip: &'a [u8; 20],
    tcp: &'a [u8; 20],
    options: &'a [u8],
    payload_len: u32,
    /// The captured payload.
    payload: &'a [u8],
}

impl<'a> Plain<'a> {
    /// Returns the segment in the IP packet at the beginning of `bytes`. `None` for all other kinds
    /// of packets, which are read header by header.
    #[inline]
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (ip, rest): (&[u8; 20], _) = bytes.split_first_chunk()?;
        let [PLAIN_V4, _, l0, l1, _, _, f0, f1, _, protocol::TCP, ..] = *ip else {
            return None;
        };
        let (tcp, rest): (&[u8; 20], _) = rest.split_first_chunk()?;
        let header_len = usize::from(tcp[12] >> 4) * 4;
        let (options, rest) = rest.split_at_checked(header_len.checked_sub(20)?)?;
        // A zero length field fails here: segmentation offload has not filled it in yet.
        let payload_len = usize::from(u16::from_be_bytes([l0, l1])).checked_sub(20 + header_len)?;
        let is_whole = u16::from_be_bytes([f0, f1]) & FRAGMENT == 0;
        let payload = rest.get(..payload_len).unwrap_or(rest);
        let (header_len, payload_len) = (header_len as u32, payload_len as u32);
        let is_padded = tcp::is_padded(header_len, payload_len, payload, TcpFlags(tcp[13]));
        (is_whole && !is_padded).then_some(Self {
            ip,
            tcp,
            options,
            payload_len,
            payload,
        })
    }

    /// Returns the segment in a record's IP packet `network`, and the record's time. `None` for all
    /// other kinds of packets.
    #[inline(always)]
    pub(super) fn of_record(
        record: &Record<'a>,
        network: Option<(&'a [u8], u32)>,
    ) -> Option<(Self, Timestamp)> {
        let (bytes, _) = network?;
        Self::of(bytes).zip(record.at)
    }

    /// Returns the packet. Each copy would take as long as reading all the headers, so it is
    /// written once, directly where the caller wants it.
    #[inline(always)]
    pub(super) fn packet(&self, record: &Record<'_>, at: Timestamp, point: PointId) -> Packet<'a> {
        match self.usual_segment(record, at, point) {
            Some(segment) => Packet::Tcp(segment, self.payload),
            None => Packet::Tcp(self.segment(record, at, point), self.payload),
        }
    }

    /// Returns the segment if its options are the usual ones.
    ///
    /// The distinction is made here and not where options are read. The compiler stores a value
    /// that two branches can write in small parts, and copies it in large ones. The processor
    /// delays a load of several recent stores until all of them are complete.
    #[inline(always)]
    fn usual_segment(&self, record: &Record<'_>, at: Timestamp, point: PointId) -> Option<Segment> {
        let options = tcp::usual_options(self.options, self.is_syn())?;
        Some(self.segment_with(options, record, at, point))
    }

    /// Returns the segment, whatever its options.
    #[inline(never)]
    fn segment(&self, record: &Record<'_>, at: Timestamp, point: PointId) -> Segment {
        let options = tcp::read_options(self.options, self.is_syn());
        self.segment_with(options, record, at, point)
    }

    #[inline]
    fn is_syn(&self) -> bool {
        TcpFlags(self.tcp[13]).contains(TcpFlags::SYN)
    }

    #[inline(always)]
    fn segment_with(
        &self,
        options: TcpOptions,
        record: &Record<'_>,
        at: Timestamp,
        point: PointId,
    ) -> Segment {
        #[rustfmt::skip]
        let [_, service, _, _, i0, i1, f0, _, ttl, _, _, _,
            s0, s1, s2, s3, d0, d1, d2, d3] = *self.ip;
        #[rustfmt::skip]
        let [p0, p1, q0, q1, n0, n1, n2, n3, a0, a1, a2, a3,
            _, bits, w0, w1, _, _, _, _] = *self.tcp;
        let (flow, direction) = FlowKey::new_v4(
            Transport::Tcp,
            (Ipv4Addr::new(s0, s1, s2, s3), u16::from_be_bytes([p0, p1])),
            (Ipv4Addr::new(d0, d1, d2, d3), u16::from_be_bytes([q0, q1])),
        );
        Segment {
            at,
            number: record.number,
            point,
            flow,
            direction,
            seq: u32::from_be_bytes([n0, n1, n2, n3]),
            ack: u32::from_be_bytes([a0, a1, a2, a3]),
            flags: TcpFlags(bits),
            window: u16::from_be_bytes([w0, w1]),
            payload_len: self.payload_len,
            options,
            ip: IpFacts {
                ttl,
                id: Some(u16::from_be_bytes([i0, i1])),
                dont_fragment: f0 & DONT_FRAGMENT != 0,
                congestion_marked: service & 3 == 3,
                sent_by: link::sent_by(record),
            },
        }
    }
}
