//! Tests of link layers other than Ethernet, each with a segment and with a similar frame that
//! contains none.

use proptest::prelude::*;

use super::super::*;
use super::headers::{check, decode, v4, v6};
use super::writing::ethernet;

fn with(head: &[u8], packet: &[u8]) -> Vec<u8> {
    [head, packet].concat()
}

/// A packet after a SNAP header with this EtherType.
fn snap(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let [e0, e1] = ethertype.to_be_bytes();
    with(&[0xaa, 0xaa, 0x03, 0, 0, 0, e0, e1], packet)
}

#[test]
fn ppp_with_direction_and_mpls() {
    check(LinkType(166), &with(&[0, 0x03, 0, 0x21], &v4()));
    check(LinkType(166), &with(&[1, 0x03, 0, 0x57], &v6()));
    check(LinkType(204), &with(&[1, 0xff, 0x03, 0, 0x21], &v4()));
    check(LinkType(204), &with(&[0, 0x21], &v4()));
    let labelled = [0xff, 0x03, 0x02, 0x81, 0, 1, 0x01, 64];
    check(LinkType(50), &with(&labelled, &v4()));
    // The first has an invalid direction, and the second is LCP.
    assert_eq!(
        decode(LinkType(166), &with(&[2, 0x03, 0, 0x21], &v4())),
        None
    );
    assert_eq!(decode(LinkType(9), &with(&[0xc0, 0x21], &v4())), None);
}

#[test]
fn cisco_hdlc_with_direction_and_bare_mpls() {
    check(LinkType(205), &with(&[0, 0x0f, 0, 0x08, 0x00], &v4()));
    check(LinkType(219), &with(&[0, 1, 0x01, 64], &v6()));
    assert_eq!(
        decode(LinkType(205), &with(&[0, 0x0f, 0, 0x80, 0x35], &v4())),
        None
    );
}

#[test]
fn frame_relay_by_rfc_2427_and_by_cisco() {
    let frame = ethernet(&[], 0x0800, &v4());
    for address in [
        &[0x18, 0x41][..],
        &[0x18, 0x40, 0x01],
        &[0x18, 0x40, 0x00, 0x01],
    ] {
        let relayed = |rest: &[u8], packet: &[u8]| [address, rest, packet].concat();
        for (rest, packet) in [
            (&[0x03, 0xcc][..], v4()),
            (&[0x03, 0x8e], v6()),
            (&[0x03, 0x00, 0x80, 0, 0, 0, 0x08, 0x00], v4()),
            (&[0x03, 0x00, 0x80, 0x00, 0x80, 0xc2, 0, 7], frame.clone()),
            (&[0x03, 0xcf, 0x00, 0x21], v4()),
            (&[0x08, 0x00], v4()),
        ] {
            check(LinkType(107), &relayed(rest, &packet));
            check(LinkType(206), &with(&[1], &relayed(rest, &packet)));
        }
        // These frames are management of the line itself, and a bridged Token Ring frame.
        for rest in [
            &[0x03, 0x08][..],
            &[0x03, 0x00, 0x80, 0x00, 0x80, 0xc2, 0, 9],
        ] {
            assert_eq!(decode(LinkType(107), &relayed(rest, &v4())), None);
        }
    }
    let endless = with(&[0x18, 0x40, 0, 0, 0, 1, 0x03, 0xcc], &v4());
    assert_eq!(decode(LinkType(107), &endless), None);
}

/// An 802.11 data frame; `control` adds bits to its two bytes of frame control.
fn wireless(control: [u8; 2], behind: &[u8], packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x08 | control[0], control[1]];
    frame.extend([2; 22]);
    frame[22] = 0x30;
    frame.extend(behind);
    frame.extend(packet);
    frame
}

#[test]
fn frames_of_802_11() {
    let packet = snap(0x0800, &v4());
    check(LinkType(105), &wireless([0, 0x01], &[], &packet));
    check(
        LinkType(105),
        &wireless([0, 0x02], &[], &snap(0x86dd, &v6())),
    );
    check(LinkType(105), &wireless([0, 0x03], &[2; 6], &packet));
    check(LinkType(105), &wireless([0x80, 0x01], &[0, 0], &packet));
    check(
        LinkType(105),
        &wireless([0x80, 0x83], &[2, 2, 2, 2, 2, 2, 0, 0, 9, 9, 9, 9], &packet),
    );
    let put_together = [
        &[0x80, 0][..],
        &[2; 12],
        &(packet.len() as u16).to_be_bytes(),
    ]
    .concat();
    check(
        LinkType(105),
        &wireless([0x80, 0x02], &put_together, &packet),
    );
    // No packet is read from frames that are encrypted or without data, nor from later fragments,
    // management frames and other versions.
    for control in [[0, 0x40], [0x40, 0]] {
        assert_eq!(
            decode(LinkType(105), &wireless(control, &[], &packet)),
            None
        );
    }
    let mut fragment = wireless([0, 0x01], &[], &packet);
    fragment[22] = 1;
    assert_eq!(decode(LinkType(105), &fragment), None);
    for first in [0x80, 0x09] {
        let mut frame = wireless([0, 0x01], &[], &packet);
        frame[0] = first;
        assert_eq!(decode(LinkType(105), &frame), None);
    }
}

/// A radiotap header with these bitmasks of present fields, and these fields.
fn radiotap(present: &[u32], fields: &[u8]) -> Vec<u8> {
    let len = 4 + present.len() * 4 + fields.len();
    let mut header = vec![0, 0];
    header.extend((len as u16).to_le_bytes());
    header.extend(present.iter().flat_map(|word| word.to_le_bytes()));
    header.extend(fields);
    header
}

#[test]
fn frames_behind_what_drivers_say() {
    let packet = snap(0x0800, &v4());
    let frame = wireless([0, 0x01], &[], &packet);
    check(LinkType(127), &with(&radiotap(&[0], &[]), &frame));
    check(
        LinkType(127),
        &with(&radiotap(&[0x8000_0002, 0], &[0x10]), &frame),
    );
    // The header is padded if the flags say so, wherever the flags are.
    let padded = wireless([0x80, 0x01], &[0, 0, 0, 0], &packet);
    let unpadded = wireless([0x80, 0x01], &[0, 0], &packet);
    for (present, before) in [(&[2][..], 0), (&[3], 8), (&[0x8000_0003, 0], 8 + 4)] {
        for (flags, good, bad) in [(0x20, &padded, &unpadded), (0, &unpadded, &padded)] {
            let header = radiotap(present, &[&vec![0; before][..], &[flags]].concat());
            check(LinkType(127), &with(&header, good));
            assert_eq!(decode(LinkType(127), &with(&header, bad)), None);
        }
    }
    let mut prism = [0; 144];
    prism[..8].copy_from_slice(&[0x44, 0, 0, 0, 144, 0, 0, 0]);
    check(LinkType(119), &with(&prism, &frame));
    prism[..8].copy_from_slice(&[0, 0, 0, 0x44, 0, 0, 0, 144]);
    check(LinkType(119), &with(&prism, &frame));
    let mut avs = [0; 64];
    avs[..8].copy_from_slice(&[0x80, 0x21, 0x10, 0x01, 0, 0, 0, 64]);
    check(LinkType(163), &with(&avs, &frame));
    check(LinkType(119), &with(&avs, &frame));
    avs[0] = 0x81;
    assert_eq!(decode(LinkType(163), &with(&avs, &frame)), None);
    let mut future = with(&radiotap(&[0], &[]), &frame);
    future[0] = 1;
    assert_eq!(decode(LinkType(127), &future), None);
}

#[test]
fn per_packet_information_names_the_link_within() {
    let ppi = |len: u16, link: u32, frame: &[u8]| {
        let mut head = vec![0, 0];
        head.extend(len.to_le_bytes());
        head.extend(link.to_le_bytes());
        head.resize(len.into(), 0);
        with(&head, frame)
    };
    let air = wireless([0, 0x01], &[], &snap(0x0800, &v4()));
    check(LinkType(192), &ppi(32, 105, &air));
    check(
        LinkType(192),
        &ppi(8, 1, &ethernet(&[0x8100], 0x0800, &v4())),
    );
    check(
        LinkType(192),
        &ppi(8, 127, &with(&radiotap(&[0], &[]), &air)),
    );
    // A PPI header within another PPI header is not read.
    let nested = ppi(8, 192, &ppi(8, 1, &ethernet(&[], 0x0800, &v4())));
    assert_eq!(decode(LinkType(192), &nested), None);
    let tap = |kind: u32, dlt: u32, frame: &[u8]| {
        let words = [108, kind, dlt].map(u32::to_le_bytes).concat();
        with(&words, &with(&[0; 96], frame))
    };
    check(LinkType(258), &tap(1, 1, &ethernet(&[], 0x86dd, &v6())));
    check(LinkType(258), &tap(1, 0, &with(&[30, 0, 0, 0], &v6())));
    check(LinkType(258), &tap(1, 12, &v4()));
    assert_eq!(decode(LinkType(258), &tap(0, 12, &v4())), None);
}

#[test]
fn attributes_of_a_log_come_before_its_packet() {
    for is_big in [false, true] {
        let half = |value: u16| {
            if is_big {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        };
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = [half(value.len() as u16 + 4), half(kind)].concat();
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let log = |family: u8, kind: u16, packet: &[u8]| {
            let head = [family, 0, 0, 5];
            let before = [attribute(1, &[8, 0, 3, 0]), attribute(10, b"log\0\0")].concat();
            [&head[..], &before, &attribute(kind, packet)].concat()
        };
        check(LinkType(239), &log(2, 9, &v4()));
        check(LinkType(239), &log(10, 9, &v6()));
        assert_eq!(decode(LinkType(239), &log(7, 9, &v4())), None, "a bridge's");
        assert_eq!(decode(LinkType(239), &log(2, 8, &v4())), None, "no packet");
    }
    let stuck = with(&[2, 0, 0, 5, 0, 0, 1, 0], &v4());
    assert_eq!(decode(LinkType(239), &stuck), None);
}

#[test]
fn other_networks() {
    let mut ib = vec![0; 40];
    ib.extend([0x08, 0x00, 0, 0]);
    check(LinkType(242), &with(&ib, &v4()));
    ib[41] = 0x06;
    assert_eq!(decode(LinkType(242), &with(&ib, &v4())), None);
    let mut firewire = vec![0; 16];
    firewire.extend([0x86, 0xdd]);
    check(LinkType(138), &with(&firewire, &v6()));
    check(
        LinkType(109),
        &with(&[2, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 1], &v4()),
    );
    let mut log = [0; 64];
    (log[0], log[1]) = (61, 24);
    check(LinkType(117), &with(&log, &v6()));
    check(LinkType(10), &with(&[0x57; 13], &snap(0x0800, &v4())));
    check(LinkType(122), &with(&[1; 16], &snap(0x0800, &v4())));
    check(LinkType(100), &snap(0x0800, &v4()));
    check(LinkType(6), &with(&[0x10; 14], &snap(0x0800, &v4())));
    let mut routed = [0x10; 14 + 6];
    (routed[8], routed[14]) = (0x90, 0x06);
    check(LinkType(6), &with(&routed, &snap(0x0800, &v4())));
    let frame = ethernet(&[], 0x0800, &v4());
    check(LinkType(240), &with(&[0; 4], &frame));
    check(LinkType(241), &with(&[0; 12], &frame));
    // 23 is Windows's number for the IPv6 family.
    check(LinkType::NULL, &with(&[23, 0, 0, 0], &v6()));
    assert_eq!(decode(LinkType::NULL, &with(&[16, 0, 0, 0], &v4())), None);
}

#[test]
fn ethernet_frames_with_a_length_in_place_of_a_type() {
    let packet = snap(0x0800, &v4());
    let len = packet.len() as u16;
    check(LinkType::ETHERNET, &ethernet(&[], len, &packet));
    check(
        LinkType::ETHERNET,
        &ethernet(&[0x8100], len, &snap(0x86dd, &v6())),
    );
    check(
        LinkType::ETHERNET,
        &ethernet(&[], len, &with(&[6, 6, 3], &v4())),
    );
    // These are a frame of the spanning tree protocol, and a frame with an invalid length.
    let tree = with(&[0x42, 0x42, 0x03], &v4());
    assert_eq!(decode(LinkType::ETHERNET, &ethernet(&[], len, &tree)), None);
    assert_eq!(
        decode(LinkType::ETHERNET, &ethernet(&[], 1_501, &packet)),
        None
    );
}

#[test]
fn what_is_read_is_said_to_be() {
    let frame = [0x45; 200];
    for number in 0..400 {
        let link = LinkType(number);
        if decode(link, &frame).is_some() {
            assert!(link.is_read(), "{link}");
        }
    }
    for number in [
        0, 1, 9, 12, 50, 51, 101, 104, 105, 107, 113, 119, 127, 163, 166, 192, 239, 242, 276,
    ] {
        assert!(LinkType(number).is_read(), "{number}");
    }
    for number in [8, 147, 187, 189, 195, 249, 400] {
        assert!(!LinkType(number).is_read(), "{number}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn arbitrary_frames_of_any_link_never_panic(
        link in 0_u16..300,
        head in prop::collection::vec(prop::sample::select(vec![0_u8, 1, 2, 3, 8, 9, 0x44, 0x80, 0xaa, 0xff]), 0..24),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        original_len in any::<u32>(),
    ) {
        let bytes = [head, bytes].concat();
        let mut frame = super::record(LinkType(link), &bytes);
        frame.original_len = original_len;
        let _ = packet(&frame, PointId(0));
    }
}
