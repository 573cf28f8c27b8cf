//! Packets that are not TCP: fragments, names, neighbours, errors, pings, QUIC.

use lagtrace_core::decode::Packet;
use lagtrace_core::observed::datagram::{Datagram, Neighbour};
use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::flow::{Endpoint, FlowKey, Transport};
use lagtrace_core::observed::icmp::{Echo, EchoStep, IcmpError, IcmpKind};
use lagtrace_core::observed::time::Timestamp;

use super::REQUEST;
use crate::subject::{Analysis, DATA, Ends, Fed, Subject, address, end, ipv4};

const TCP: u8 = 6;
const MORE: u16 = 0x2000;
/// Number of names that are asked for before the answers come.
const ASKED: u32 = 4_096;

/// Fragments of one packet.
pub(super) fn fragments_of_one(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        let place = (1 + key % 8_000) as u16;
        analysis.record(&ipv4(TCP, [1, 2], 1, MORE | place, &[0; 8]));
    })
}

/// Fragments of packets, of which each has another identification.
pub(super) fn fragments_of_many(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        analysis.record(&ipv4(
            TCP,
            [1 + (key >> 16), 2],
            key as u16,
            MORE | 1,
            &[0; 8],
        ));
    })
}

fn udp(analysis: &mut Analysis, from: Endpoint, to: Endpoint, payload: &[u8]) {
    let number = analysis.next();
    let (flow, direction) = FlowKey::new(Transport::Udp, from, to);
    let header = Datagram {
        at: Timestamp::from_nanos(analysis.nanos),
        number,
        point: PointId(0),
        flow,
        direction,
        payload_len: payload.len() as u16,
        sent_by: lagtrace_core::observed::segment::SentBy::Unknown,
    };
    analysis.packet(&Packet::Udp(header, payload));
}

fn question(id: u16, name: u32) -> Vec<u8> {
    let mut query = Vec::from(id.to_be_bytes());
    query.extend(b"\x01\0\0\x01\0\0\0\0\0\0\x08");
    query.extend(format!("{name:08x}").bytes());
    query.extend(b"\x07example\0\0\x01\0\x01");
    query
}

fn answer(id: u16, name: u32) -> Vec<u8> {
    let mut answer = question(id, name);
    answer[2..4].copy_from_slice(&[0x81, 0x80]);
    answer[7] = 1;
    answer.extend(b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04\x0a\x01");
    answer.extend((name as u16).to_be_bytes());
    answer
}

/// The ports and the identifications of queries.
pub(super) fn query_ids(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        let from = end(1, 1_024 + (key & 0x7fff) as u16);
        udp(analysis, from, end(2, 53), &question(key as u16, 1));
    })
}

/// The names of queries.
pub(super) fn query_names(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        udp(analysis, end(1, 5_000), end(2, 53), &question(7, key));
    })
}

/// The clients of queries.
pub(super) fn query_clients(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        udp(analysis, end(9 + key, 5_000), end(2, 53), &question(7, 1));
    })
}

/// The resolvers that are asked.
pub(super) fn query_resolvers(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        let port = 1_024 + (key & 0x7fff) as u16;
        udp(analysis, end(1, port), end(9 + key, 53), &question(7, key));
    })
}

/// Queries to the link, by the host that asks, and their answers.
pub(super) fn link_questions(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        let group = Endpoint::new([224, 0, 0, 251].into(), 5_353);
        let asker = end(9 + key, 5_353);
        udp(analysis, asker, group, &question(0, key));
        udp(analysis, end(2, 5_353), group, &answer(0, key + 1));
    })
}

/// Answers to queries, and the connections that follow them.
pub(super) fn query_answers(_: u32) -> Box<dyn Subject> {
    let mut analysis = Analysis::new();
    let port = |key: u32| 1_024 + (key & 0x7fff) as u16;
    for key in 0..ASKED {
        let from = end(1, port(key));
        udp(&mut analysis, from, end(2, 53), &question(key as u16, key));
    }
    Fed::by(analysis, move |analysis, key| {
        let to = end(1, port(key));
        udp(analysis, end(2, 53), to, &answer(key as u16, key));
        let server = Endpoint::new([10, 1, (key >> 8) as u8, key as u8].into(), 80);
        analysis.open(&Ends::new(end(1, port(key)), server));
    })
}

fn neighbour(analysis: &mut Analysis, asker: u32, target: u32, is_answer: bool) {
    let number = analysis.next();
    analysis.packet(&Packet::Neighbour(Neighbour {
        at: Timestamp::from_nanos(analysis.nanos),
        number,
        point: PointId(0),
        asker: address(asker),
        target: address(target),
        is_answer,
    }));
}

/// Neighbours that are searched by one host.
pub(super) fn neighbours(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        neighbour(analysis, 1, 2 + key, false);
    })
}

/// Hosts that search a neighbour, and find it.
pub(super) fn searches(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        neighbour(analysis, 2 + key, 1, false);
        neighbour(analysis, 2 + key, 1, true);
    })
}

fn error(analysis: &mut Analysis, reporter: u32, ends: &Ends, seq: u32) {
    let number = analysis.next();
    let (flow, direction) = FlowKey::new(Transport::Tcp, ends.client, ends.server);
    analysis.packet(&Packet::Icmp(IcmpError {
        at: Timestamp::from_nanos(analysis.nanos),
        number,
        point: PointId(0),
        reporter: address(reporter),
        flow,
        direction,
        seq: Some(seq),
        flags: Some(DATA),
        kind: IcmpKind::Unreachable(1),
    }));
}

/// Errors about connections, by the client's port.
pub(super) fn errors_by_flow(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        let port = 1_024 + (key & 0x7fff) as u16;
        let ends = Ends::new(end(1 + (key >> 15), port), end(9_000_000, 80));
        analysis.open(&ends);
        error(analysis, 7, &ends, 1);
    })
}

/// Errors from many routers about one connection.
pub(super) fn errors_by_router(_: u32) -> Box<dyn Subject> {
    let (mut analysis, ends) = (Analysis::new(), Ends::usual());
    analysis.open(&ends);
    analysis.tcp(&ends.up(1, 1), REQUEST);
    Fed::by(analysis, move |analysis, key| {
        error(analysis, 100 + key, &ends, 1 + key % 100);
    })
}

fn echo(analysis: &mut Analysis, [asker, target]: [u32; 2], [id, seq]: [u16; 2], step: EchoStep) {
    let number = analysis.next();
    analysis.packet(&Packet::Echo(Echo {
        at: Timestamp::from_nanos(analysis.nanos),
        number,
        point: PointId(0),
        asker: address(asker),
        target: address(target),
        id,
        seq,
        step,
    }));
}

/// Pings by their numbers.
pub(super) fn pings(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        let numbers = [(key >> 8) as u16, key as u16];
        echo(analysis, [1, 2], numbers, EchoStep::Request);
    })
}

/// Pings by the host that is pinged.
pub(super) fn pinged(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        echo(analysis, [1, 2 + key], [1, 1], EchoStep::Request);
        echo(analysis, [1, 2 + key], [1, 1], EchoStep::Reply);
    })
}

/// QUIC connections by the client's port.
pub(super) fn quic(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        let from = end(1 + (key >> 15), 1_024 + (key & 0x7fff) as u16);
        let mut initial = vec![0xc3, 0, 0, 0, 1, 8];
        initial.extend(u64::from(key).to_be_bytes());
        initial.extend([0, 0, 0x40, 0x20]);
        initial.extend([0; 32]);
        udp(analysis, from, end(9_000_000, 443), &initial);
        udp(analysis, end(9_000_000, 443), from, &initial);
    })
}
