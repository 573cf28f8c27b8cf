//! Tests of link, IP and TCP headers.

use proptest::prelude::*;

use super::super::*;
use super::record;
use super::writing::{ethernet, ipv4, ipv6, tcp};
use crate::observed::flow::{Direction, Endpoint, FlowKey, Transport};
use crate::observed::segment::{SentBy, TcpFlags};

const PAYLOAD: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

pub(super) fn decode(link: LinkType, frame: &[u8]) -> Option<(Segment, &[u8])> {
    tcp_of(packet(&record(link, frame), PointId(3)))
}

fn tcp_of(packet: Packet<'_>) -> Option<(Segment, &[u8])> {
    match packet {
        Packet::Tcp(segment, payload) => Some((segment, payload)),
        Packet::Icmp(_)
        | Packet::Udp(..)
        | Packet::Echo(_)
        | Packet::Neighbour(_)
        | Packet::Other => None,
    }
}

#[track_caller]
pub(super) fn check(link: LinkType, frame: &[u8]) {
    let (segment, payload) = decode(link, frame).expect("the frame holds a TCP segment");
    assert_eq!(payload, PAYLOAD);
    assert_eq!(segment.payload_len as usize, PAYLOAD.len());
    assert_eq!((segment.number, segment.point), (7, PointId(3)));
    assert_eq!((segment.seq, segment.ack, segment.window), (1, 2, 500));
    assert_eq!(segment.flags, TcpFlags::PSH.with(TcpFlags::ACK));
    assert!(segment.ip.congestion_marked);
    let source = segment.flow.source(segment.direction).to_string();
    assert!(["10.0.0.1:1000", "[fd00::1]:1000"].contains(&source.as_str()));
}

pub(super) fn v4() -> Vec<u8> {
    ipv4(&[], &tcp(0x18, &[], PAYLOAD))
}

pub(super) fn v6() -> Vec<u8> {
    ipv6(6, &tcp(0x18, &[], PAYLOAD))
}

#[test]
fn a_sieve_excludes_segments_of_other_flows() {
    let flow_of = |frame: &[u8]| decode(LinkType::RAW, frame).expect("a segment").0.flow;
    let other = {
        let (one, _) = flow_of(&v4()).ends();
        FlowKey::new(Transport::Tcp, one, Endpoint::new(one.addr, 9)).0
    };
    for frame in [v4(), v6()] {
        let record = record(LinkType::RAW, &frame);
        assert!(Sieve::of([other]).excludes(&record));
        assert!(Sieve::of([]).excludes(&record));
        assert!(!Sieve::of([other, flow_of(&frame)]).excludes(&record));
    }
    // Fragments, datagrams and what is no packet take decoding.
    let mut fragment = v4();
    fragment[6] |= 0x20;
    let mut datagram = v4();
    datagram[9] = 17;
    for frame in [fragment, datagram, vec![0x45; 21], Vec::new()] {
        assert!(!Sieve::of([]).excludes(&record(LinkType::RAW, &frame)));
    }
}

#[test]
fn every_link_layer() {
    let with = |head: &[u8], packet: &[u8]| [head, packet].concat();
    check(LinkType::ETHERNET, &ethernet(&[], 0x0800, &v4()));
    check(LinkType::ETHERNET, &ethernet(&[], 0x86dd, &v6()));
    check(LinkType::LOOP, &with(&[0, 0, 0, 2], &v4()));
    check(LinkType::NULL, &with(&[2, 0, 0, 0], &v4()));
    for family in [10, 24, 28, 30] {
        check(LinkType::NULL, &with(&[family, 0, 0, 0], &v6()));
        check(LinkType::NULL, &with(&[0, 0, 0, family], &v6()));
    }
    for raw in [12, 14, 101] {
        check(LinkType(raw), &v4());
        check(LinkType(raw), &v6());
    }
    check(LinkType::IPV4, &v4());
    check(LinkType::IPV6, &v6());
    let sll = [0, 0, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0x86, 0xdd];
    check(LinkType::LINUX_SLL, &with(&sll, &v6()));
    let mut sll2 = [0; 20];
    sll2[0] = 0x08;
    check(LinkType::LINUX_SLL2, &with(&sll2, &v4()));
    check(LinkType::C_HDLC, &with(&[0x0f, 0, 0x08, 0x00], &v4()));
    check(LinkType::PPP, &with(&[0x00, 0x21], &v4()));
    check(LinkType::PPP, &with(&[0x57], &v6()));
    check(LinkType::PPP_HDLC, &with(&[0xff, 0x03, 0x00, 0x57], &v6()));
    check(
        LinkType::PPP_ETHER,
        &with(&[0x11, 0, 0, 1, 0, 60, 0x00, 0x21], &v4()),
    );
    assert_eq!(decode(LinkType(147), &v4()), None);
}

#[test]
fn vlan_tags_stack_up_to_four() {
    let tags = [0x88a8, 0x8100, 0x9100, 0x9200];
    for count in 0..=4 {
        check(LinkType::ETHERNET, &ethernet(&tags[..count], 0x0800, &v4()));
    }
    let five = ethernet(&[0x8100; 5], 0x0800, &v4());
    assert_eq!(decode(LinkType::ETHERNET, &five), None);
}

#[test]
fn pppoe_and_mpls_within_ethernet() {
    let session = [&[0x11, 0, 0, 1, 0, 60, 0x00, 0x57][..], &v6()].concat();
    check(LinkType::ETHERNET, &ethernet(&[0x8100], 0x8864, &session));
    let labels = [&[0, 1, 0x00, 64, 0, 2, 0x01, 64][..], &v4()].concat();
    check(LinkType::ETHERNET, &ethernet(&[], 0x8847, &labels));
    let bottomless = [0; 400];
    assert_eq!(
        decode(LinkType::ETHERNET, &ethernet(&[], 0x8847, &bottomless)),
        None
    );
}

#[test]
fn padding_is_no_payload() {
    let mut frame = ethernet(&[], 0x0800, &ipv4(&[], &tcp(0x10, &[], &[])));
    frame.resize(60, 0);
    let (segment, payload) = decode(LinkType::ETHERNET, &frame).expect("a bare ACK");
    assert_eq!((segment.payload_len, payload), (0, &[][..]));
}

#[test]
fn padding_within_the_datagrams_length_is_no_payload_either() {
    let len = |packet: Vec<u8>| {
        let (segment, payload) = decode(LinkType(101), &packet).expect("a segment");
        assert_eq!(segment.payload_len as usize, payload.len());
        payload.len()
    };
    let of = |flags, payload: &[u8]| len(ipv4(&[], &tcp(flags, &[], payload)));
    for padded in [of(0x10, &[0; 6]), of(0x10, &[0; 2]), of(0x11, &[0; 6])] {
        assert_eq!(padded, 0);
    }
    // These are payload: with PSH, a window probe of one byte, more bytes than a short frame lacks,
    // and bytes that are not all zeros.
    assert_eq!(of(0x18, &[0; 6]), 6);
    assert_eq!(of(0x10, &[0]), 1);
    assert_eq!(of(0x10, &[0; 7]), 7);
    assert_eq!(of(0x10, &[0, 0, 0, 0, 0, 1]), 6);
    assert_eq!(len(ipv6(6, &tcp(0x10, &[], &[0; 6]))), 6);
}

#[test]
fn zero_length_is_what_the_frame_holds() {
    let mut packet = v4();
    packet[2..4].fill(0);
    check(LinkType::ETHERNET, &ethernet(&[], 0x0800, &packet));
    let mut packet = v6();
    packet[4..6].fill(0);
    check(LinkType::ETHERNET, &ethernet(&[], 0x86dd, &packet));
}

#[test]
fn a_cut_frame_keeps_its_payload_length() {
    let frame = ethernet(&[], 0x0800, &v4());
    let mut cut = record(LinkType::ETHERNET, &frame[..58]);
    cut.original_len = frame.len() as u32;
    let (segment, payload) = tcp_of(packet(&cut, PointId(0))).expect("headers are whole");
    assert_eq!(segment.payload_len as usize, PAYLOAD.len());
    assert_eq!(payload, &PAYLOAD[..4]);

    let options = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let frame = ethernet(&[], 0x0800, &ipv4(&[], &tcp(0x18, &options, PAYLOAD)));
    let mut cut = record(LinkType::ETHERNET, &frame[..60]);
    cut.original_len = frame.len() as u32;
    let (segment, payload) = tcp_of(packet(&cut, PointId(0))).expect("the fixed header is whole");
    assert_eq!(segment.payload_len as usize, PAYLOAD.len());
    assert_eq!((payload, segment.options.timestamps), (&[][..], None));
    assert_eq!(decode(LinkType::ETHERNET, &frame[..49]), None);
}

#[test]
fn ip_options_and_extension_headers_are_passed() {
    check(LinkType::RAW, &ipv4(&[1; 8], &tcp(0x18, &[], PAYLOAD)));
    let chain = [
        &[43, 0, 0, 0, 0, 0, 0, 0][..],
        &[51, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[
            60, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
        &[6, 0, 0, 0, 0, 0, 0, 0],
        &tcp(0x18, &[], PAYLOAD),
    ]
    .concat();
    check(LinkType::RAW, &ipv6(0, &chain));
    let endless = [[0, 0, 0, 0, 0, 0, 0, 0]; 40].concat();
    assert_eq!(decode(LinkType::RAW, &ipv6(0, &endless)), None);
}

#[test]
fn options_of_a_syn() {
    let options = [
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 15,
    ];
    let frame = ipv4(&[], &tcp(0x02, &options, &[]));
    let (segment, _) = decode(LinkType::RAW, &frame).expect("a SYN");
    let read = segment.options;
    assert_eq!((read.mss, read.window_scale), (Some(1460), Some(14)));
    assert!(read.sack_permitted);
    assert_eq!(read.timestamps, Some((9, 0)));
    let frame = ipv4(&[], &tcp(0x10, &options, &[]));
    let (segment, _) = decode(LinkType::RAW, &frame).expect("an ACK");
    let read = segment.options;
    assert_eq!(
        (read.mss, read.window_scale, read.sack_permitted),
        (None, None, false)
    );
}

#[test]
fn sack_blocks() {
    let mut options = vec![1, 1, 5, 26];
    for edge in 1..=6_u32 {
        options.extend(edge.to_be_bytes());
    }
    let frame = ipv4(&[], &tcp(0x10, &options, &[]));
    let (segment, _) = decode(LinkType::RAW, &frame).expect("an ACK");
    assert_eq!(segment.options.sack_blocks(), [(1, 2), (3, 4), (5, 6)]);
}

#[test]
fn malformed_options_end_the_options() {
    for options in [[8, 0, 0, 0], [8, 1, 0, 0], [8, 40, 0, 0], [5, 4, 0, 0]] {
        let frame = ipv4(&[], &tcp(0x10, &options, PAYLOAD));
        let (segment, payload) = decode(LinkType::RAW, &frame).expect("the header is whole");
        assert_eq!(segment.options, Default::default());
        assert_eq!(payload, PAYLOAD);
    }
}

#[test]
fn headers_that_do_not_fit_are_no_segment() {
    let mut short_offset = v4();
    short_offset[32] = 0x40;
    let mut long_offset = ipv4(&[], &tcp(0x10, &[], &[]));
    long_offset[32] = 0x60;
    let mut short_total = v4();
    short_total[2..4].copy_from_slice(&[0, 30]);
    let mut short_ihl = v4();
    short_ihl[0] = 0x44;
    let mut udp = v4();
    udp[9] = 17;
    for frame in [short_offset, long_offset, short_total, short_ihl, udp] {
        assert_eq!(decode(LinkType::RAW, &frame), None);
    }
}

#[test]
fn mapped_addresses_and_directions_share_a_flow() {
    let there = decode(LinkType::RAW, &v4()).expect("a segment").0;
    let mut back = v4();
    back[12..20].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
    back[20..24].copy_from_slice(&[0, 80, 0x03, 0xe8]);
    let back = decode(LinkType::RAW, &back).expect("a segment").0;
    assert_eq!(there.flow, back.flow);
    assert_eq!(there.direction, Direction::Forward);
    assert_eq!(back.direction, Direction::Backward);
}

#[test]
fn a_record_without_time_is_no_segment() {
    let frame = v4();
    let mut untimed = record(LinkType::RAW, &frame);
    untimed.at = None;
    assert_eq!(packet(&untimed, PointId(0)), Packet::Other);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn arbitrary_frames_never_panic(
        link in prop::sample::select(vec![0_u16, 1, 9, 12, 50, 51, 101, 104, 108, 113, 228, 229, 276]),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        original_len in any::<u32>(),
    ) {
        let mut frame = record(LinkType(link), &bytes);
        frame.original_len = original_len;
        let _ = packet(&frame, PointId(0));
    }

    #[test]
    fn altered_frames_never_yield_more_payload_than_they_say(
        at in 0_usize..120,
        value in any::<u8>(),
        keep in 0_usize..120,
        is_v6 in any::<bool>(),
    ) {
        let options = [2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7];
        let segment = tcp(0x12, &options, PAYLOAD);
        let mut bytes = if is_v6 { ipv6(6, &segment) } else { ipv4(&[], &segment) };
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
        let bytes = bytes.get(..keep).unwrap_or(&bytes);
        if let Some((segment, payload)) = decode(LinkType::RAW, bytes) {
            prop_assert!(payload.len() as u64 <= u64::from(segment.payload_len));
        }
    }
}

/// The fast path for common segments gives the same result as reading header by header.
#[test]
fn what_is_read_in_one_go_is_read_alike_field_by_field() {
    let times = [1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6];
    for options in [&[][..], &times, &[5, 10, 0, 0, 0, 1, 0, 0, 0, 9, 1, 1]] {
        let frame = ethernet(&[], 0x0800, &ipv4(&[], &tcp(0x18, options, PAYLOAD)));
        for at in 0..frame.len() {
            for bit in 0..8 {
                let mut frame = frame.clone();
                frame[at] ^= 1 << bit;
                check_alike(&frame);
                check_alike(&frame[..at]);
            }
        }
    }
}

#[track_caller]
fn check_alike(frame: &[u8]) {
    let record = record(LinkType::ETHERNET, frame);
    let network = link::network(&record);
    let by_field = read::alone(&record, PointId(3), network);
    assert_eq!(packet(&record, PointId(3)), by_field);
}

#[test]
fn cooked_frames_say_whether_the_host_sent_them() {
    let sent_by = |link, header: &[u8]| {
        let (segment, _) = decode(link, &[header, &v4()].concat()).expect("a segment");
        segment.ip.sent_by
    };
    let sll = |kind, device| {
        let [high, low] = u16::to_be_bytes(device);
        let cooked = [0, kind, high, low, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0];
        let mut second = [0; 20];
        (second[0], second[8], second[9], second[10]) = (0x08, high, low, kind);
        [
            sent_by(LinkType::LINUX_SLL, &cooked),
            sent_by(LinkType::LINUX_SLL2, &second),
        ]
    };
    assert_eq!(sll(4, 1), [SentBy::ThisHostOrBehind; 2]);
    assert_eq!(sll(0, 1), [SentBy::AnotherHost; 2]);
    assert_eq!(sll(0, 772), [SentBy::Unknown; 2], "loopback");
    assert_eq!(
        sent_by(LinkType::ETHERNET, &ethernet(&[], 0x0800, &v4())),
        SentBy::Unknown
    );
}
