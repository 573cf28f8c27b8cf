//! The records that `bpf/watch.bpf.c` reports, in the layout of `bpf/watch.h`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use lagtrace_core::decode::{LinkType, Record};
use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::flow::{Endpoint, FlowKey, Transport};
use lagtrace_core::observed::kernel_span::{
    Asked, Departure, KernelHold, Program, RequestSpan, ThreadTimes,
};
use lagtrace_core::observed::passage::{BytePassage, PassagePoint, PassingThread};
use lagtrace_core::observed::segment::{IpFacts, Segment, SentBy, TcpFlags, TcpOptions};
use lagtrace_core::observed::time::Timestamp;

use crate::clock::Clock;

/// `RECORD_SEGMENT_IN` and `RECORD_SEGMENT_OUT` of `bpf/watch.h`.
const SEGMENT_IN: u8 = 1;
const SEGMENT_OUT: u8 = 2;
/// `RECORD_TURN` of `bpf/watch.h`.
const TURN: u8 = 3;
/// `RECORD_OPENING` of `bpf/watch.h`.
const OPENING: u8 = 4;
/// `RECORD_PASSAGE` of `bpf/watch.h`.
const PASSAGE: u8 = 5;
/// `enum gate` of `bpf/watch.h`.
const DELIVERED: u8 = 1;
const READ: u8 = 2;
const WRITTEN: u8 = 3;
const SENT: u8 = 4;
const LEFT: u8 = 5;
/// Offset of a segment's bytes in its record.
const BYTES: usize = 24;
/// Maximum window scale (RFC 7323 §2.3).
const MAX_WINDOW_SCALE: u8 = 14;
/// `LINKTYPE_RAW`: a packet begins with its IP header.
const RAW: LinkType = LinkType(101);

/// A parsed record.
#[derive(Debug)]
pub(super) enum Told<'a> {
    /// A segment.
    Segment {
        record: Record<'a>,
        /// True if this host sent the segment.
        is_own: bool,
        /// Inode of the segment's network namespace.
        namespace: u32,
        /// The TCP options that the segment's sender offered in the handshake.
        terms: Terms,
    },
    Turn(Box<RequestSpan>),
    /// Bytes of an HTTP/2 connection that passed a gate.
    Passage(Box<BytePassage>),
    /// The handshake of a connection.
    Opening(Box<Opening>),
}

/// A handshake that this host answered, from the values in the connection's socket.
#[derive(Debug)]
pub(super) struct Opening {
    at: Timestamp,
    pub(super) namespace: u32,
    local: Endpoint,
    remote: Endpoint,
    rtt: Duration,
    own_seq: u32,
    peer_seq: u32,
    own: Offer,
    peer: Offer,
    /// TSval and TSecr of the handshake's ACK.
    timestamps: Option<(u32, u32)>,
}

/// The window and the options in one end's SYN.
#[derive(Clone, Copy, Debug)]
struct Offer {
    window: u32,
    options: TcpOptions,
}

impl Opening {
    /// Returns the three segments of the handshake, numbered from `number`. Two values are not
    /// recorded and are estimated. The SYN gets the arrival time of the SYN/ACK, which is up to
    /// some microseconds late. The SYN's TSval is that of the ACK minus the round-trip time, for a
    /// clock with 1 ms ticks.
    pub(super) fn segments(&self, number: u64, point: PointId) -> [Segment; 3] {
        let asked = self.at - self.rtt;
        let make = |place: u64, at, is_own, flags| {
            let (from, to) = if is_own {
                (self.local, self.remote)
            } else {
                (self.remote, self.local)
            };
            let (flow, direction) = FlowKey::new(Transport::Tcp, from, to);
            let is_syn = flags != TcpFlags::ACK;
            let (offer, seq, ack) = if is_own {
                (self.own, self.own_seq, self.peer_seq)
            } else {
                (self.peer, self.peer_seq, self.own_seq)
            };
            let shift = offer.options.window_scale.filter(|_| !is_syn);
            let window = offer.window >> shift.unwrap_or_default();
            let millis = u32::try_from(self.rtt.as_millis()).unwrap_or_default();
            let timestamps = self.timestamps.map(|(peer, own)| match (is_own, is_syn) {
                (true, _) => (own, peer.wrapping_sub(millis)),
                (false, true) => (peer.wrapping_sub(millis), 0),
                (false, false) => (peer, own),
            });
            let offered = if is_syn {
                offer.options
            } else {
                TcpOptions::default()
            };
            Segment {
                at,
                number: number + place,
                point,
                flow,
                direction,
                seq: seq.wrapping_sub(u32::from(is_syn)),
                ack: if flags == TcpFlags::SYN { 0 } else { ack },
                flags,
                window: u16::try_from(window).unwrap_or(u16::MAX),
                payload_len: 0,
                options: TcpOptions {
                    timestamps,
                    ..offered
                },
                ip: IpFacts {
                    sent_by: SentBy::of_own(is_own),
                    ..IpFacts::default()
                },
            }
        };
        let answer = TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0);
        [
            make(0, asked, false, TcpFlags::SYN),
            make(1, asked, true, answer),
            make(2, self.at, false, TcpFlags::ACK),
        ]
    }
}

/// `struct terms` of `bpf/watch.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) mss: u16,
    pub(super) window_scale: u8,
}

/// Parses a record; `None` if it is not a record of `bpf/watch.h`.
pub(super) fn read<'a>(bytes: &'a [u8], number: u64, clock: &'a Clock) -> Option<Told<'a>> {
    let fields = Fields { bytes, clock };
    match *bytes.first()? {
        kind @ (SEGMENT_IN | SEGMENT_OUT) => Some(Told::Segment {
            record: fields.segment(number)?,
            is_own: kind == SEGMENT_OUT,
            namespace: fields.u32(16)?,
            terms: Terms {
                mss: fields.u16(20)?,
                window_scale: (*bytes.get(22)?).min(MAX_WINDOW_SCALE),
            },
        }),
        TURN => fields.turn().map(Box::new).map(Told::Turn),
        PASSAGE => fields.passage().map(Box::new).map(Told::Passage),
        OPENING => fields.opening().map(Box::new).map(Told::Opening),
        _ => None,
    }
}

/// Returns true if the record is an exchange or a passage. These come from sockets, and shortly
/// after the segments that they explain.
pub(super) fn is_of_socket(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(TURN | PASSAGE)))
}

struct Fields<'a> {
    bytes: &'a [u8],
    clock: &'a Clock,
}

impl<'a> Fields<'a> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..at + N)?.try_into().ok()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_ne_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_ne_bytes)
    }

    /// Reads a timestamp; `Some(None)` if the event did not happen.
    fn moment(&self, at: usize) -> Option<Option<Timestamp>> {
        let nanos = self.u64(at)?;
        Some((nanos > 0).then(|| self.clock.of_kernel(nanos)))
    }

    fn segment(&self, number: u64) -> Option<Record<'a>> {
        let captured = usize::from(self.u16(2)?);
        let bytes = self.bytes.get(BYTES..BYTES + captured)?;
        Some(Record {
            number,
            at: self.moment(8)?,
            link: RAW,
            interface: 0,
            original_len: self.u32(4)?.max(u32::from(self.u16(2)?)),
            bytes,
        })
    }

    fn opening(&self) -> Option<Opening> {
        let flags: [u8; 3] = self.array(1)?;
        let [has_scaling, has_sack, has_timestamps] = flags.map(|flag| flag > 0);
        let offer = |window, terms: usize| {
            let shift = (*self.bytes.get(terms + 2)?).min(MAX_WINDOW_SCALE);
            Some(Offer {
                window: self.u32(window)?,
                options: TcpOptions {
                    mss: Some(self.u16(terms)?),
                    window_scale: has_scaling.then_some(shift),
                    sack_permitted: has_sack,
                    ..TcpOptions::default()
                },
            })
        };
        Some(Opening {
            namespace: self.u32(4)?,
            at: self.moment(8)??,
            local: self.end(16, Side::Local)?,
            remote: self.end(16, Side::Remote)?,
            rtt: Duration::from_micros(u64::from(self.u32(56)?)),
            own_seq: self.u32(60)?,
            peer_seq: self.u32(64)?,
            own: offer(68, 76)?,
            peer: offer(72, 80)?,
            timestamps: if has_timestamps {
                Some((self.u32(84)?, self.u32(88)?))
            } else {
                None
            },
        })
    }

    fn turn(&self) -> Option<RequestSpan> {
        let nanos = |at| self.u64(at).map(Duration::from_nanos);
        let asked_for = nanos(216)?;
        let (first_queued, queued) = (nanos(128)?, nanos(136)?);
        Some(RequestSpan {
            local: self.end(8, Side::Local)?,
            remote: self.end(8, Side::Remote)?,
            program: self.program(288)?,
            arrived: self.moment(48)??,
            entered: self.moment(56)?,
            delivered: self.moment(64)??,
            delivered_last: self.moment(72)??,
            read: self.moment(80)?,
            written: self.moment(88)?,
            written_last: self.moment(96)?,
            sent: self.moment(104)??,
            sent_last: self.moment(112)??,
            departure: self.moment(120)?.map(|at| Departure {
                at,
                first_queued,
                queued,
            }),
            refused: self.moment(144)?,
            writes: self.u32(4)?,
            held: KernelHold {
                longest: nanos(152)?,
                total: nanos(160)?,
                times: self.u32(168)?,
                after_arrival: self.u32(172)?,
            },
            thread: (self.bytes.get(1)? > &0).then_some(ThreadTimes {
                queued_unread: nanos(176)?,
                queued: nanos(184)?,
                waking_unread: nanos(192)?,
                waking: nanos(200)?,
                slept: nanos(208)?,
            }),
            asked: if asked_for.is_zero() {
                None
            } else {
                Some(Asked {
                    whom: self.end(248, Side::Remote).filter(|end| end.port > 0),
                    time: asked_for,
                    way: nanos(224)?,
                    silent: nanos(232)?,
                    calls: self.u32(240)?,
                    connections: self.u32(244)?,
                })
            },
        })
    }

    fn passage(&self) -> Option<BytePassage> {
        let at = self.moment(48)??;
        Some(BytePassage {
            local: self.end(8, Side::Local)?,
            remote: self.end(8, Side::Remote)?,
            gate: match *self.bytes.get(1)? {
                DELIVERED => PassagePoint::Delivered {
                    arrived: self.moment(56)?.unwrap_or(at),
                    entered: self.moment(64)?,
                },
                READ => PassagePoint::Read(Box::new(self.caller()?)),
                WRITTEN => PassagePoint::Written(Box::new(self.caller()?)),
                SENT => PassagePoint::Sent {
                    held: Duration::from_nanos(self.u64(144)?),
                    after_arrival: self.bytes.get(3)? > &0,
                },
                LEFT => PassagePoint::Left {
                    queued: Duration::from_nanos(self.u64(72)?),
                },
                _ => return None,
            },
            at,
            start: self.u32(4)?,
            end: self.u32(112)?,
        })
    }

    /// Reads the thread of a passage.
    fn caller(&self) -> Option<PassingThread> {
        let nanos = |at| self.u64(at).map(Duration::from_nanos);
        Some(PassingThread {
            program: self.program(116)??,
            thread: (self.bytes.get(2)? > &0).then_some(ThreadTimes {
                queued: nanos(72)?,
                waking: nanos(80)?,
                slept: nanos(88)?,
                queued_unread: nanos(96)?,
                waking_unread: nanos(104)?,
            }),
        })
    }

    /// Reads one of the two endpoints of a connection (`struct ends`) at `at`.
    fn end(&self, at: usize, side: Side) -> Option<Endpoint> {
        let (address, port) = match side {
            Side::Local => (at, at + 32),
            Side::Remote => (at + 16, at + 34),
        };
        let address = match i32::from(self.u16(at + 36)?) {
            libc::AF_INET => Ipv4Addr::from(self.array::<4>(address)?).into(),
            libc::AF_INET6 => Ipv6Addr::from(self.array::<16>(address)?).into(),
            _ => return None,
        };
        Some(Endpoint::new(address, self.u16(port)?))
    }

    /// Reads the thread that read the request; `Some(None)` if no read was observed.
    fn program(&self, at: usize) -> Option<Option<Program>> {
        let name: [u8; 16] = self.array(at + 8)?;
        let end = name
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(name.len());
        let name = String::from_utf8_lossy(name.get(..end)?).into_owned();
        let (pid, tid) = (self.u32(at)?, self.u32(at + 4)?);
        Some((pid > 0).then_some(Program { pid, tid, name }))
    }
}

#[derive(Clone, Copy)]
enum Side {
    Local,
    Remote,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cut_and_no_byte_makes_it_panic() {
        let clock = Clock::new();
        for kind in 0..=6 {
            for len in 0..304 {
                for fill in [0, 1, 2, 10, 0xff] {
                    let mut bytes = vec![fill; len];
                    if let Some(first) = bytes.first_mut() {
                        *first = kind;
                    }
                    let told = read(&bytes, 1, &clock);
                    let is_cut_off = matches!(told, Some(Told::Turn(_))) && len < 312;
                    assert!(!is_cut_off, "{len} bytes are no turn");
                }
            }
        }
    }

    #[test]
    fn a_window_scale_is_at_most_the_largest() {
        let mut bytes = [1; 92];
        bytes[0] = OPENING;
        bytes[52..54].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        for scale in [78, 82] {
            bytes[scale] = 0xff;
        }
        let clock = Clock::new();
        let Some(Told::Opening(opening)) = read(&bytes, 1, &clock) else {
            panic!("a handshake");
        };
        let [syn, answer, _] = opening.segments(1, PointId(0));
        let scales = [syn, answer].map(|segment| segment.options.window_scale);
        assert_eq!(scales, [Some(MAX_WINDOW_SCALE); 2]);
    }

    /// Returns the record of a passage through this gate, with distinct values.
    fn passage(gate: u8) -> Vec<u8> {
        let mut bytes = vec![0; 152];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &[PASSAGE, gate, 1, 1]);
        put(4, &100u32.to_ne_bytes());
        put(40, &80u16.to_ne_bytes());
        put(42, &40_000u16.to_ne_bytes());
        put(44, &(libc::AF_INET as u16).to_ne_bytes());
        for (place, value) in (48..112).step_by(8).zip(1u64..) {
            put(place, &value.to_ne_bytes());
        }
        put(112, &200u32.to_ne_bytes());
        put(116, &7u32.to_ne_bytes());
        put(120, &8u32.to_ne_bytes());
        put(124, b"server");
        put(144, &9u64.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_passage_is_of_its_gate() {
        let clock = Clock::new();
        let gate = |gate| match read(&passage(gate), 1, &clock) {
            Some(Told::Passage(passage)) => {
                assert_eq!((passage.start, passage.end), (100, 200));
                assert_eq!((passage.local.port, passage.remote.port), (80, 40_000));
                assert_eq!(passage.at, clock.of_kernel(1));
                Some(passage.gate)
            }
            _ => None,
        };
        let nanos = Duration::from_nanos;
        let caller = Box::new(PassingThread {
            program: Program {
                pid: 7,
                tid: 8,
                name: "server".to_owned(),
            },
            thread: Some(ThreadTimes {
                queued: nanos(4),
                waking: nanos(5),
                slept: nanos(6),
                queued_unread: nanos(7),
                waking_unread: nanos(8),
            }),
        });
        let delivered = PassagePoint::Delivered {
            arrived: clock.of_kernel(2),
            entered: Some(clock.of_kernel(3)),
        };
        assert_eq!(gate(DELIVERED), Some(delivered));
        assert_eq!(gate(READ), Some(PassagePoint::Read(caller.clone())));
        assert_eq!(gate(WRITTEN), Some(PassagePoint::Written(caller)));
        let sent = PassagePoint::Sent {
            held: nanos(9),
            after_arrival: true,
        };
        assert_eq!(gate(SENT), Some(sent));
        assert_eq!(gate(LEFT), Some(PassagePoint::Left { queued: nanos(4) }));
        assert_eq!(gate(LEFT + 1), None);
    }

    #[test]
    fn a_segment_is_its_bytes() {
        let mut bytes = vec![0; 192];
        bytes[0] = 1;
        bytes[2..4].copy_from_slice(&4u16.to_ne_bytes());
        bytes[4..8].copy_from_slice(&1500u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&7u64.to_ne_bytes());
        bytes[16..20].copy_from_slice(&77u32.to_ne_bytes());
        bytes[20..22].copy_from_slice(&1460u16.to_ne_bytes());
        bytes[22] = 10;
        bytes[24..28].copy_from_slice(&[0x45, 1, 2, 3]);
        let clock = Clock::new();
        let told = read(&bytes, 9, &clock);
        let Some(Told::Segment {
            record,
            is_own: false,
            namespace: 77,
            terms,
        }) = told
        else {
            panic!("a segment: {told:?}");
        };
        let offered = Terms {
            mss: 1460,
            window_scale: 10,
        };
        assert_eq!(terms, offered);
        assert_eq!(record.number, 9);
        assert_eq!(record.original_len, 1500);
        assert_eq!(record.bytes, [0x45, 1, 2, 3]);
        assert_eq!(record.at, Some(clock.of_kernel(7)));
    }
}
