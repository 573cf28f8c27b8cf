//! Segments within tunnels.

use super::super::*;
use super::headers::{check, decode, v4, v6};
use super::writing::{ethernet, ipv4, ipv6};

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
    // Without the flag it is none, and another port is none.
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
    // ERSPAN type I, II and III, the last with its optional header.
    check(LinkType::RAW, &gre(0, 0x88be, &[], &frame));
    check(LinkType::RAW, &gre(0x10, 0x88be, &[0; 4 + 8], &frame));
    let mut fields = [0; 4 + 12 + 8];
    check(LinkType::RAW, &gre(0x10, 0x22eb, &fields[..16], &frame));
    fields[15] = 1;
    check(LinkType::RAW, &gre(0x10, 0x22eb, &fields, &frame));
    // Source routes and other versions are not read.
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
