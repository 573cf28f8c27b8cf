//! Tests of ICMP errors, the packets that they quote, and pings.

use super::super::*;
use super::record;
use super::writing::{ipv4, ipv6, tcp};
use crate::observed::flow::{Direction, Transport};
use crate::observed::icmp::{EchoStep, IcmpKind};

/// An ICMP error from 10.0.0.1 (the source address that `ipv4` uses) about `quoted`.
fn error_v4(head: [u8; 8], quoted: &[u8]) -> Vec<u8> {
    let mut packet = ipv4(&[], &[&head[..], quoted].concat());
    packet[9] = 1;
    packet
}

fn read(bytes: &[u8]) -> Option<IcmpError> {
    match packet(&record(LinkType::RAW, bytes), PointId(3)) {
        Packet::Icmp(error) => Some(error),
        Packet::Tcp(..)
        | Packet::Udp(..)
        | Packet::Echo(_)
        | Packet::Neighbour(_)
        | Packet::Other => None,
    }
}

/// The first `len` bytes of a segment that is too long to be quoted completely.
fn quoted_v4(len: usize) -> Vec<u8> {
    let mut packet = ipv4(&[], &tcp(0x10, &[], &[0; 1400]));
    packet.truncate(len);
    packet
}

#[test]
fn too_big_names_flow_sequence_number_and_mtu() {
    // RFC 792 requires eight bytes of the quoted packet's payload.
    let bytes = error_v4([3, 4, 0, 0, 0, 0, 0x05, 0x78], &quoted_v4(28));
    let error = read(&bytes).expect("an ICMP error");
    assert_eq!(error.kind, IcmpKind::TooBig(1400));
    assert_eq!(error.wire(), (3, 4));
    assert_eq!((error.number, error.point), (7, PointId(3)));
    assert_eq!((error.seq, error.direction), (Some(1), Direction::Forward));
    assert_eq!(error.flow.transport(), Transport::Tcp);
    assert_eq!(
        error.flow.source(error.direction).to_string(),
        "10.0.0.1:1000"
    );
}

#[test]
fn packet_too_big_of_ipv6() {
    let quoted = ipv6(6, &tcp(0x10, &[], &[0; 100]));
    let body = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &quoted].concat();
    let error = read(&ipv6(58, &body)).expect("an ICMPv6 error");
    assert_eq!((error.kind, error.wire()), (IcmpKind::TooBig(1280), (2, 0)));
    assert_eq!(error.seq, Some(1));
}

#[test]
fn the_kinds_and_their_numbers() {
    for head in [[3, 1], [3, 13], [11, 0], [12, 0]] {
        let bytes = error_v4([head[0], head[1], 0, 0, 0, 0, 0, 0], &quoted_v4(60));
        let error = read(&bytes).expect("an ICMP error");
        assert_eq!(error.wire(), (head[0], head[1]));
    }
}

#[test]
fn a_quoted_datagram_is_of_a_udp_flow() {
    let mut quoted = quoted_v4(28);
    quoted[9] = 17;
    let error = read(&error_v4([3, 3, 0, 0, 0, 0, 0, 0], &quoted)).expect("an ICMP error");
    assert_eq!(error.flow.transport(), Transport::Udp);
    assert_eq!((error.seq, error.kind), (None, IcmpKind::Unreachable(3)));
}

#[test]
fn what_is_no_error_or_quotes_too_little_is_none() {
    let echo = [8, 0, 0, 0, 0, 1, 0, 1];
    assert_eq!(read(&error_v4(echo, &quoted_v4(28))), None);
    let redirect = [5, 1, 0, 0, 10, 0, 0, 9];
    assert_eq!(read(&error_v4(redirect, &quoted_v4(28))), None);
    let too_big = [3, 4, 0, 0, 0, 0, 5, 120];
    for len in [0, 19, 20, 23] {
        assert_eq!(read(&error_v4(too_big, &quoted_v4(len))), None, "{len}");
    }
    // 24 bytes contain the ports but no sequence number.
    let error = read(&error_v4(too_big, &quoted_v4(24))).expect("ports suffice");
    assert_eq!(error.seq, None);
}

fn ping(bytes: &[u8]) -> Option<Echo> {
    match packet(&record(LinkType::RAW, bytes), PointId(3)) {
        Packet::Echo(echo) => Some(echo),
        _ => None,
    }
}

#[test]
fn a_ping_its_answer_and_what_is_said_of_it_name_the_same_series() {
    let request = [8, 0, 0, 0, 0x12, 0x34, 0, 9];
    let asked = ping(&error_v4(request, &[0; 32])).expect("a ping");
    assert_eq!((asked.id, asked.seq), (0x1234, 9));
    assert_eq!(asked.step, EchoStep::Request);
    let mut reply = request;
    reply[0] = 0;
    let answered = ping(&error_v4(reply, &[0; 32])).expect("an answer");
    assert_eq!((answered.id, answered.seq), (0x1234, 9));
    assert_eq!(
        (answered.asker, answered.target),
        (asked.target, asked.asker)
    );
    let quoted = error_v4(request, &[]);
    let rejected = ping(&error_v4([3, 1, 0, 0, 0, 0, 0, 0], &quoted)).expect("a word");
    assert_eq!((rejected.id, rejected.seq), (0x1234, 9));
    assert_eq!(
        (rejected.asker, rejected.target),
        (asked.asker, asked.target)
    );
    let kind = IcmpKind::Unreachable(1);
    assert!(matches!(rejected.step, EchoStep::Rejected { kind: told, .. } if told == kind));
    let of_reply = error_v4(reply, &[]);
    assert_eq!(ping(&error_v4([3, 1, 0, 0, 0, 0, 0, 0], &of_reply)), None);
    let v6 = ping(&ipv6(58, &[129, 0, 0, 0, 0, 7, 0, 1])).expect("an answer of ICMPv6");
    assert_eq!((v6.id, v6.seq, v6.step), (7, 1, EchoStep::Reply));
}
