//! Tests with recordings of real connections (aioquic 1.3). A relay between the capture and the
//! server delays each direction by 10 ms.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use super::{Flows, QuicFlow};
use crate::decode::{self, Container, Found, Packet, Record};
use crate::observed::datagram::Datagram;
use crate::observed::event::PointId;
use crate::observed::flow::{self, Endpoint, FlowKey, Transport};
use crate::observed::side::PerSide;

const HANDSHAKE: &[u8] = include_bytes!("../../../tests/quic/handshake.pcap");
const RETRY: &[u8] = include_bytes!("../../../tests/quic/retry.pcap");

/// Length in bytes of the headers of Ethernet, IPv4 without options, and UDP.
const HEADERS: usize = 14 + 20 + 8;

const SERVER: Endpoint = Endpoint {
    addr: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    port: 443,
};

/// Returns the flows in a recording. Only packets whose numbers `counts` accepts are used, and each
/// is cut to `snap` bytes.
fn flows(mut file: &[u8], snap: usize, counts: impl Fn(u64) -> bool) -> Vec<Box<QuicFlow>> {
    let mut flows = Flows::new(flow::hasher(1));
    let mut closed = Vec::new();
    let mut container = Container::new();
    loop {
        let step = container.next(file);
        let Found::Record(record) = step.found else {
            break;
        };
        if counts(record.number) {
            let bytes = record.bytes.get(..snap).unwrap_or(record.bytes);
            let record = Record { bytes, ..record };
            if let Packet::Udp(datagram, payload) = decode::packet(&record, PointId(0)) {
                flows.observe_datagram(&datagram, payload, Some(0), &mut closed);
            }
        }
        file = &file[step.consumed..];
    }
    flows.finish()
}

/// Returns the only flow in a complete recording.
fn only(file: &[u8]) -> Box<QuicFlow> {
    let mut flows = flows(file, usize::MAX, |_| true);
    assert_eq!(flows.len(), 1);
    flows.remove(0)
}

/// As many flows as there is room for, then others once all of them have been idle for long.
#[test]
fn flows_that_are_idle_give_their_room_to_later_ones() {
    let (mut container, mut file) = (Container::new(), HANDSHAKE);
    let record = loop {
        let step = container.next(file);
        file = &file[step.consumed..];
        if let Found::Record(record) = step.found {
            break record;
        }
    };
    let Packet::Udp(first, initial) = decode::packet(&record, PointId(0)) else {
        panic!("an Initial");
    };
    let (mut flows, mut closed) = (Flows::new(flow::hasher(1)), Vec::new());
    let mut begin = |number: usize, at| {
        let [a, b, c, d] = u32::try_from(number).expect("a number").to_be_bytes();
        let client = Endpoint {
            addr: IpAddr::from([10 | a, b, c, d]),
            port: 5000,
        };
        let (flow, direction) = FlowKey::new(Transport::Udp, client, SERVER);
        let datagram = Datagram {
            at,
            flow,
            direction,
            ..first
        };
        flows.observe_datagram(&datagram, initial, Some(0), &mut closed);
        closed.len()
    };
    let later = first.at + (super::IDLE + Duration::from_secs(1));
    // More than there is room for, none of them idle.
    for number in 0..super::MAX_FLOWS * 2 {
        assert_eq!(begin(number, first.at), 0);
    }
    let mut numbers = 0..super::MAX_FLOWS;
    let swept = numbers.find(|number| begin(super::MAX_FLOWS * 2 + number, later) > 0);
    assert!(swept.is_some(), "no room in vain");
}

fn rounded_ms(duration: Option<Duration>) -> Option<u128> {
    duration.map(|duration| (duration.as_micros() + 500) / 1000)
}

#[test]
fn a_handshake_is_timed_to_the_clients_first_packet_under_its_final_keys() {
    // Packet 1 is the Initial, packet 2 the server's flight, and packet 3 the client's whole
    // flight.
    let flow = only(HANDSHAKE);
    assert_eq!(flow.version, 1);
    assert_eq!(rounded_ms(flow.to_server()), Some(28));
    assert_eq!(rounded_ms(flow.to_client()), Some(2));
    assert_eq!(rounded_ms(flow.handshake()), Some(30));
    assert_eq!((flow.retries, flow.negotiations), (0, 0));
    assert!(!flow.has_zero_rtt);
    let PerSide { client, server } = flow.sent;
    assert_eq!(flow.packets.last, client.datagrams + server.datagrams);
}

#[test]
fn a_retry_is_a_round_trip_more() {
    let flow = only(RETRY);
    assert_eq!(flow.retries, 1);
    assert_eq!(rounded_ms(flow.handshake()), Some(64));
    // Packet 2 answers packet 1.
    assert_eq!(rounded_ms(flow.to_server()), Some(25));
    assert_eq!(flow.repeated_initials(), 0);
}

#[test]
fn the_spin_bit_times_both_halves() {
    let flow = only(HANDSHAKE);
    assert!(flow.spins());
    let [to_client, to_server] = flow.spin_trips();
    let median =
        |sample: &crate::stats::sample::Sample| sample.median_ns().map(Duration::from_nanos);
    let server = rounded_ms(median(to_server)).unwrap_or_default();
    assert!((20..=40).contains(&server), "{server} ms to the server");
    let client = rounded_ms(median(to_client)).unwrap_or(u128::MAX);
    assert!(client <= 12, "{client} ms to the client");
}

#[test]
fn one_direction_or_the_middle_alone_tells_what_it_can() {
    // The client's packets are those to port 4443.
    let client = flows(HANDSHAKE, usize::MAX, |number| {
        [1, 3, 4, 7].contains(&number)
    });
    let [flow] = &client[..] else {
        panic!("{client:?}")
    };
    assert_eq!((flow.handshake(), flow.to_server()), (None, None));
    assert!(!flow.spins());
    let server = flows(HANDSHAKE, usize::MAX, |number| [2, 5, 6].contains(&number));
    assert!(server.is_empty(), "an answer alone could be anything");
    assert!(flows(HANDSHAKE, usize::MAX, |number| number > 4).is_empty());
}

#[test]
fn short_snapshots_lose_what_is_coalesced_only() {
    for snap in HEADERS..200 {
        let told = flows(HANDSHAKE, snap, |_| true);
        assert!(told.len() <= 1, "{snap} bytes");
    }
    let told = flows(RETRY, 96, |_| true);
    let [flow] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(flow.retries, 1);
    assert_eq!(rounded_ms(flow.to_server()), Some(25));
}
