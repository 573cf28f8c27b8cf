//! Tests of segments in tunnels.

use proptest::prelude::*;

use super::super::*;
use super::headers::{check, decode, v4, v6};
use super::record;
use super::writing::{ethernet, ipv4, ipv6, tcp};

fn carried(protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = ipv4(&[], body);
    packet[9] = protocol;
    packet
}

fn udp(port: u16, body: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0xc0, 0];
    datagram.extend(port.to_be_bytes());
    datagram.extend((body.len() as u16 + 8).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(body);
    datagram
}

fn vxlan(port: u16, frame: &[u8]) -> Vec<u8> {
    carried(
        17,
        &udp(port, &[&[0x08, 0, 0, 0, 0, 0, 7, 0], frame].concat()),
    )
}

fn gre(flags: u8, kind: u16, fields: &[u8], body: &[u8]) -> Vec<u8> {
    let [k0, k1] = kind.to_be_bytes();
    carried(47, &[&[flags, 0, k0, k1], fields, body].concat())
}

#[test]
fn ip_within_ip() {
    check(LinkType::RAW, &carried(4, &v4()));
    check(LinkType::RAW, &carried(41, &v6()));
    check(LinkType::RAW, &ipv6(4, &v4()));
    check(LinkType::RAW, &ipv6(41, &v6()));
}

#[test]
fn vxlan_and_geneve() {
    let frame = ethernet(&[0x8100], 0x0800, &v4());
    for port in [4789, 8472] {
        check(
            LinkType::ETHERNET,
            &ethernet(&[], 0x0800, &vxlan(port, &frame)),
        );
    }
    // A datagram without the flag is no tunnel, nor is one to another port.
    let mut unflagged = vxlan(4789, &frame);
    unflagged[28] = 0;
    assert_eq!(decode(LinkType::RAW, &unflagged), None);
    assert_eq!(decode(LinkType::RAW, &vxlan(4788, &frame)), None);
    let with_option = [&[1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 4][..], &frame].concat();
    check(LinkType::RAW, &carried(17, &udp(6081, &with_option)));
    let bare = [&[0, 0, 0x86, 0xdd, 0, 0, 7, 0][..], &v6()].concat();
    check(LinkType::RAW, &carried(17, &udp(6081, &bare)));
}

#[test]
fn gre_with_any_fields() {
    let frame = ethernet(&[], 0x86dd, &v6());
    check(LinkType::RAW, &gre(0, 0x0800, &[], &v4()));
    check(LinkType::RAW, &gre(0, 0x86dd, &[], &v6()));
    check(LinkType::RAW, &gre(0, 0x6558, &[], &frame));
    check(LinkType::RAW, &gre(0xb0, 0x6558, &[9; 12], &frame));
    // ERSPAN types I, II and III; the last one also with its optional header.
    check(LinkType::RAW, &gre(0, 0x88be, &[], &frame));
    check(LinkType::RAW, &gre(0x10, 0x88be, &[0; 4 + 8], &frame));
    let mut fields = [0; 4 + 12 + 8];
    check(LinkType::RAW, &gre(0x10, 0x22eb, &fields[..16], &frame));
    fields[15] = 1;
    check(LinkType::RAW, &gre(0x10, 0x22eb, &fields, &frame));
    // Source routes and other versions are not supported.
    assert_eq!(
        decode(LinkType::RAW, &gre(0x40, 0x0800, &[0; 4], &v4())),
        None
    );
}

#[test]
fn tunnels_nest_up_to_four() {
    let mut packet = v4();
    for _ in 0..4 {
        packet = carried(4, &packet);
        check(LinkType::RAW, &packet);
    }
    assert_eq!(decode(LinkType::RAW, &carried(4, &packet)), None);
}

#[test]
fn a_cut_tunnel_keeps_the_payload_length() {
    let frame = vxlan(4789, &ethernet(&[], 0x0800, &v4()));
    let (segment, payload) =
        decode(LinkType::RAW, &frame[..frame.len() - 4]).expect("the headers are whole");
    assert_eq!((segment.payload_len, payload.len()), (18, 14));
}

fn gtp(flags: u8, kind: u8, behind: &[u8], packet: &[u8]) -> Vec<u8> {
    let len = (behind.len() + packet.len()) as u16;
    let mut message = vec![flags, kind];
    message.extend(len.to_be_bytes());
    message.extend([0, 0, 0, 9]);
    message.extend(behind);
    message.extend(packet);
    message
}

fn l2tp(flags: u16, fields: &[u8], frame: &[u8]) -> Vec<u8> {
    [&(flags | 2).to_be_bytes()[..], fields, frame].concat()
}

fn over_udp(port: u16, body: &[u8]) -> Vec<u8> {
    carried(17, &udp(port, body))
}

/// Checks that a datagram is reported as such, without a packet within it.
#[track_caller]
fn check_no_tunnel(bytes: &[u8]) {
    let is_datagram = matches!(
        packet(&record(LinkType::RAW, bytes), PointId(0)),
        Packet::Udp(..)
    );
    assert!(is_datagram, "it is the datagram that it looks like");
}

#[test]
fn gtp_with_and_without_optional_fields() {
    let inner = v4();
    for (flags, behind) in [
        (0x30, &[][..]),
        (0x32, &[0, 1, 0, 0]),
        (0x31, &[0, 0, 7, 0]),
        (0x34, &[0, 0, 0, 0x85, 1, 0x10, 9, 0]),
        (
            0x36,
            &[0, 1, 0, 0x85, 1, 0x10, 9, 0x40, 2, 0, 0, 0, 0, 0, 0, 0],
        ),
    ] {
        check(
            LinkType::RAW,
            &over_udp(2152, &gtp(flags, 0xff, behind, &inner)),
        );
        check(
            LinkType::RAW,
            &over_udp(2152, &gtp(flags, 0xff, behind, &v6())),
        );
        check_no_tunnel(&over_udp(2153, &gtp(flags, 0xff, behind, &inner)));
    }
    let long = [gtp(0x30, 0xff, &[], &inner), vec![0; 9]].concat();
    check(LinkType::RAW, &over_udp(2152, &long));
    // No tunnel: GTP', version 2, an echo, an extension of zero length, and one without end.
    for (flags, kind, behind) in [
        (0x20, 0xff, &[][..]),
        (0x50, 0xff, &[]),
        (0x30, 1, &[]),
        (0x34, 0xff, &[0, 0, 0, 0x85, 0, 0, 0, 0]),
        (0x34, 0xff, &[0, 0, 0, 1]),
    ] {
        check_no_tunnel(&over_udp(2152, &gtp(flags, kind, behind, &inner)));
    }
    let endless = gtp(
        0x34,
        0xff,
        &[[0, 0, 0, 1], [1, 0, 0, 1]].concat().repeat(40),
        &inner,
    );
    check_no_tunnel(&over_udp(2152, &endless));
    // The message states a greater length than the datagram.
    let mut short = gtp(0x30, 0xff, &[], &inner);
    short[3] += 1;
    check_no_tunnel(&over_udp(2152, &short));
    // The content is not IP, or its IP length exceeds the message.
    check_no_tunnel(&over_udp(2152, &gtp(0x30, 0xff, &[], &[0x25; 60])));
    let mut too_long = inner;
    too_long[2..4].copy_from_slice(&[0x70, 0]);
    check_no_tunnel(&over_udp(2152, &gtp(0x30, 0xff, &[], &too_long)));
}

#[test]
fn l2tp_with_and_without_optional_fields() {
    let frame = [&[0xff, 0x03, 0x00, 0x21][..], &v4()].concat();
    let short = [&[0x57][..], &v6()].concat();
    let len = (frame.len() + 8) as u16;
    let [l0, l1] = len.to_be_bytes();
    for (flags, fields) in [
        (0, &[0, 1, 0, 2][..]),
        (0x4000, &[l0, l1, 0, 1, 0, 2]),
        (0x0900, &[0, 1, 0, 2, 0, 3, 0, 4]),
        (0x0200, &[0, 1, 0, 2, 0, 3, 9, 9, 9]),
        (0x4a00, &[l0, l1, 0, 1, 0, 2, 0, 3, 0, 4, 0, 0]),
    ] {
        check(LinkType::RAW, &over_udp(1701, &l2tp(flags, fields, &frame)));
        if flags & 0x4000 == 0 {
            check(LinkType::RAW, &over_udp(1701, &l2tp(flags, fields, &short)));
        }
    }
    // An answer to a client behind NAT: only its source port is L2TP's.
    let mut answer = udp(40_000, &l2tp(0, &[0, 1, 0, 2], &frame));
    answer[..2].copy_from_slice(&1701_u16.to_be_bytes());
    check(LinkType::RAW, &carried(17, &answer));
    // No tunnel: a control message, a reserved bit, version 3, and a length beyond the datagram.
    for message in [
        l2tp(0x8000, &[0, 1, 0, 2], &frame),
        l2tp(0x0010, &[0, 1, 0, 2], &frame),
        l2tp(1, &[0, 1, 0, 2], &frame),
        l2tp(0x4000, &[0xff, 0, 0, 1, 0, 2], &frame),
        l2tp(0, &[0, 1, 0, 2], &[&[0xc0, 0x21][..], &v4()].concat()),
    ] {
        check_no_tunnel(&over_udp(1701, &message));
    }
    check_no_tunnel(&over_udp(1702, &l2tp(0, &[0, 1, 0, 2], &frame)));
}

#[test]
fn pptp_and_labels_within_gre() {
    let frame = [&[0x21][..], &v4()].concat();
    let pptp = |flags: [u8; 2], fields: &[u8]| {
        let head = [flags[0], flags[1], 0x88, 0x0b];
        carried(47, &[&head[..], fields, &frame].concat())
    };
    check(
        LinkType::RAW,
        &pptp([0x30, 0x01], &[0, 9, 0, 1, 0, 0, 0, 7]),
    );
    check(
        LinkType::RAW,
        &pptp([0x30, 0x81], &[0, 9, 0, 1, 0, 0, 0, 7, 0, 0, 0, 6]),
    );
    // Without a key, the header is of another version.
    assert_eq!(
        decode(LinkType::RAW, &pptp([0x10, 0x01], &[0, 0, 0, 7])),
        None
    );
    check(LinkType::RAW, &gre(0, 0x8847, &[0, 1, 0x01, 64], &v4()));
}

#[test]
fn a_mirrored_port_within_an_overlay() {
    let frame = ethernet(&[0x8100], 0x0800, &v4());
    let mirrored = gre(0x10, 0x88be, &[0; 4 + 8], &frame);
    let overlay = vxlan(4789, &ethernet(&[], 0x0800, &mirrored));
    check(LinkType::ETHERNET, &ethernet(&[], 0x0800, &overlay));
    let third = gre(0x10, 0x22eb, &[0; 4 + 12], &frame);
    check(LinkType::RAW, &vxlan(4789, &ethernet(&[], 0x0800, &third)));
}

proptest! {
    /// In every kind of tunnel, the inner packet keeps its own length.
    #[test]
    fn drawn_lengths_survive_each_tunnel(len in 0_usize..1_400, kept in 0_usize..1_400) {
        let inner = ipv4(&[], &tcp(0x18, &[], &vec![b'x'; len]));
        let ppp = [&[0x00, 0x21][..], &inner].concat();
        for outer in [
            over_udp(2152, &gtp(0x32, 0xff, &[0, 1, 0, 0], &inner)),
            over_udp(1701, &l2tp(0, &[0, 1, 0, 2], &ppp)),
            carried(47, &[&[0x30, 0x01, 0x88, 0x0b, 0, 9, 0, 1, 0, 0, 0, 7][..], &ppp].concat()),
            gre(0x10, 0x88be, &[0; 4 + 8], &ethernet(&[], 0x0800, &inner)),
        ] {
            let (segment, payload) = decode(LinkType::RAW, &outer).expect("a segment");
            prop_assert_eq!((segment.payload_len as usize, payload.len()), (len, len));
            let headers = outer.len() - len;
            let cut = outer.get(..headers + kept.min(len)).expect("within it");
            let mut record = record(LinkType::RAW, cut);
            record.original_len = outer.len() as u32;
            let Packet::Tcp(segment, payload) = packet(&record, PointId(0)) else {
                panic!("its headers are there");
            };
            prop_assert_eq!((segment.payload_len as usize, payload.len()), (len, kept.min(len)));
        }
    }

    #[test]
    fn arbitrary_bytes_in_tunnels_never_panic(
        port in prop::sample::select(vec![2152_u16, 1701, 4789, 6081]),
        head in prop::sample::select(vec![vec![0x30, 0xff], vec![0x34, 0xff], vec![0, 2], vec![0x4a, 2]]),
        body in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let bytes = over_udp(port, &[head, body.clone()].concat());
        let _ = packet(&record(LinkType::RAW, &bytes), PointId(0));
        let _ = packet(&record(LinkType::RAW, &carried(47, &body)), PointId(0));
    }
}
