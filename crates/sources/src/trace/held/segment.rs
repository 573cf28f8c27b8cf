//! Probe segments within a connection, and parsing of the target's segments.

use core::time::Duration;

use lagtrace_core::observed::segment::TcpFlags;

use super::shown;
use crate::headers::{Ends, Ipv4Header, TCP, TCP_HEADER, TcpSegment};
use crate::trace::distance::hops_of;
use crate::trace::header;
use crate::trace::packet::{long, recall, word};

/// Control bits of the TCP header.
const SYN: u8 = TcpFlags::SYN.0;
const RST: u8 = TcpFlags::RST.0;
const ACK: u8 = TcpFlags::ACK.0;
const FIN: u8 = TcpFlags::FIN.0;
/// Kind and length of the timestamps option (RFC 7323 §3.2).
const TIMESTAMPS: (u8, usize) = (8, 10);
/// Number of different values of a byte.
const OCTETS: u32 = 256;

/// The values in the SYN/ACK of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handshake {
    /// Sequence number of this end's first byte.
    next: u32,
    /// Acknowledgement number of the probes.
    acknowledged: u32,
    /// The target's timestamp, and this end's timestamp that it echoed; `None` if the target does
    /// not use timestamps.
    stamps: Option<(u32, u32)>,
    /// Maximum likely distance of the target in hops.
    pub(super) hops: u8,
}

/// The contents of a segment from the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// True for an RST that answers one of lagtrace's segments. It has no ACK flag (RFC 9293
    /// §3.10.7.1). An RST that the target sends for another reason has this flag (§3.10.5).
    pub(super) is_reset: bool,
    /// True for an ACK without data and without other flags.
    pub(super) is_pure: bool,
    /// The timestamp of this end that the segment echoes.
    pub(super) echo: Option<u32>,
}

impl Handshake {
    /// Parses the copy of a SYN/ACK that a raw socket received.
    pub(super) fn read(ends: &Ends, bytes: &[u8], ttl: Option<u8>) -> Option<Self> {
        let segment = bytes.get(shown(ends, bytes)?..)?;
        let is_ours = is_of(ends, segment)?;
        let is_answer = segment.get(13)? & (SYN | ACK | RST) == SYN | ACK;
        (is_ours && is_answer).then_some(())?;
        Some(Self {
            next: long(segment, 8)?,
            acknowledged: long(segment, 4)?.wrapping_add(1),
            stamps: stamps(segment),
            hops: ttl.map_or(1, hops_of),
        })
    }

    /// Returns the timestamp for a segment sent `after` the SYN. It is not later than the kernel's
    /// own timestamps, which count milliseconds.
    pub(super) fn own_stamp(&self, after: Duration) -> u32 {
        let first = self.stamps.map_or(0, |(_, echoed)| echoed);
        first.wrapping_add(after.as_millis() as u32)
    }
}

/// Returns a keep-alive. Its byte precedes the first byte of data, and its value is the low bits of
/// the probe's number.
pub(super) fn keep_alive(ends: &Ends, its: &Handshake, stamp: u32, number: u32) -> Vec<u8> {
    let mut options = Vec::new();
    if let Some((theirs, _)) = its.stamps {
        options.extend([1, 1, TIMESTAMPS.0, TIMESTAMPS.1 as u8]);
        options.extend(stamp.to_be_bytes());
        options.extend(theirs.to_be_bytes());
    }
    let segment = TcpSegment {
        sequence: its.next.wrapping_sub(1),
        acknowledged: its.acknowledged,
        flags: TcpFlags::ACK,
        options: &options,
        payload: &[(number % OCTETS) as u8],
    };
    segment.between(ends)
}

/// Returns the IPv4 header of a probe.
pub(super) fn header(number: u32, ttl: u8, tos: u8) -> Ipv4Header {
    Ipv4Header {
        protocol: TCP,
        id: header::id(number),
        ttl,
        tos,
    }
}

/// Returns the probe that is quoted. In IPv4, the identification in the header identifies it. In
/// IPv6, it is the byte of data, which ICMPv6 errors quote too.
pub(super) fn quoted(ends: &Ends, quoted: &[u8], last: u32) -> Option<u32> {
    let segment = quoted.get(shown(ends, quoted)?..)?;
    let is_ours =
        word(segment, 0)? == ends.source_port && word(segment, 2)? == ends.destination_port;
    is_ours.then_some(())?;
    if ends.destination.is_ipv4() {
        header::id_number(word(quoted, 4)?, last)
    } else {
        let octet = *segment.get(data_at(segment)?)?;
        recall(last, octet.into(), OCTETS)
    }
}

/// Parses a segment from the target. `bytes` is the copy that a raw socket received.
pub(super) fn read(ends: &Ends, bytes: &[u8]) -> Option<Said> {
    let at = shown(ends, bytes)?;
    let segment = bytes.get(at..)?;
    let is_ours = is_of(ends, segment)?;
    let flags = segment.get(13)?;
    let is_empty = segment.len() == data_at(segment)?;
    is_ours.then(|| Said {
        is_reset: flags & (RST | ACK) == RST,
        is_pure: is_empty && flags & (SYN | RST | FIN | ACK) == ACK,
        echo: stamps(segment).map(|(_, echo)| echo),
    })
}

fn is_of(ends: &Ends, segment: &[u8]) -> Option<bool> {
    Some(word(segment, 0)? == ends.destination_port && word(segment, 2)? == ends.source_port)
}

fn data_at(segment: &[u8]) -> Option<usize> {
    let at = usize::from(segment.get(12)? >> 4) * 4;
    (at >= TCP_HEADER).then_some(at)
}

/// Returns TSval and TSecr of the timestamps option.
fn stamps(segment: &[u8]) -> Option<(u32, u32)> {
    let mut options = segment.get(TCP_HEADER..data_at(segment)?)?;
    // The loop ends: there are at most 40 bytes, and each iteration consumes at least one.
    loop {
        let (length, kind) = match options.first()? {
            0 => return None,
            1 => (1, 1),
            &kind => (usize::from(*options.get(1)?), kind),
        };
        if (kind, length) == TIMESTAMPS {
            return Some((long(options, 2)?, long(options, 6)?));
        }
        options = options.get(length.max(1)..)?;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum::{fold, sum};
    use crate::headers::tests::ends;
    use crate::trace::packet::behind_v4;

    fn turned(ends: &Ends) -> Ends {
        Ends {
            source: ends.destination,
            destination: ends.source,
            source_port: ends.destination_port,
            destination_port: ends.source_port,
        }
    }

    const HANDSHAKE: Handshake = Handshake {
        next: 1_000,
        acknowledged: 5_000,
        stamps: Some((77, 1_234)),
        hops: 4,
    };

    fn sent(ends: &Ends, number: u32) -> Vec<u8> {
        let segment = keep_alive(ends, &HANDSHAKE, 1_250, number);
        if ends.destination.is_ipv4() {
            header(number, 9, 0).before(ends, &segment)
        } else {
            segment
        }
    }

    #[test]
    fn only_the_octet_before_the_first_is_sent_and_its_probe_is_known_again() {
        for is_v4 in [true, false] {
            let ends = ends(is_v4, 80);
            for number in [0, 1, 255, 256, 65_535, 700_000] {
                let packet = sent(&ends, number);
                let segment = if is_v4 {
                    behind_v4(&packet).expect("a header")
                } else {
                    &packet
                };
                assert_eq!(long(segment, 4), Some(999), "acknowledged before");
                assert_eq!((segment.len(), segment[13]), (33, ACK));
                assert_eq!(fold(sum(segment) + ends.pseudo(TCP, segment.len())), 0xffff);
                // IPv4 routers may quote only eight bytes after the IP header.
                let quote = if is_v4 { 28 } else { packet.len() };
                assert_eq!(quoted(&ends, &packet[..quote], number + 9), Some(number));
                assert_eq!(quoted(&turned(&ends), &packet, number + 9), None);
            }
        }
    }

    #[test]
    fn the_target_s_segments_are_told_apart() {
        let ends = ends(false, 80);
        let its = turned(&ends);
        let mut segment = keep_alive(&its, &HANDSHAKE, 1_250, 0);
        // Data that the target sends by itself is not an answer.
        assert_eq!(read(&ends, &segment).map(|said| said.is_pure), Some(false));
        segment.pop();
        let said = read(&ends, &segment).expect("it is ours");
        assert_eq!(
            (said.is_reset, said.is_pure, said.echo),
            (false, true, Some(77))
        );
        assert_eq!(Handshake::read(&ends, &segment, Some(61)), None);
        segment[13] = SYN | ACK;
        let handshake = Handshake::read(&ends, &segment, Some(61)).expect("it is one");
        assert_eq!((handshake.next, handshake.acknowledged), (5_000, 1_000));
        assert_eq!((handshake.stamps, handshake.hops), (Some((1_250, 77)), 4));
        assert_eq!(handshake.own_stamp(Duration::from_micros(12_900)), 89);
        segment[13] = RST;
        assert!(read(&ends, &segment).is_some_and(|said| said.is_reset));
        segment[13] = RST | ACK;
        let said = read(&ends, &segment).expect("it is ours");
        assert!(!said.is_reset && !said.is_pure, "of its own accord");
        assert_eq!(read(&its, &segment), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            is_v4: bool,
            last: u32,
        ) {
            let ends = ends(is_v4, 80);
            let _ = quoted(&ends, &bytes, last);
            let _ = read(&ends, &bytes);
            let _ = Handshake::read(&ends, &bytes, None);
            let _ = stamps(&bytes);
        }
    }
}
