//! Changes of IP identifications.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::capture::Capture;
use crate::draw::Draw;
use crate::packet::{Packet, Way};

/// Maximum number of identifications that a counter may skip because packets were lost.
const PASSED: u16 = 200;

/// Returns the capture with a single counter for each host, as some kernels have it. The packets of
/// all its connections are numbered in their order, including those that the capture lacks.
pub(crate) fn of_host(capture: &Capture, draw: &mut Draw) -> Capture {
    let mut hosts: HashMap<IpAddr, u16> = HashMap::new();
    let mut ways: HashMap<Way, Counted> = HashMap::new();
    replaced(capture, |packet| {
        let host = hosts
            .entry(packet.source)
            .or_insert_with(|| draw.next() as u16);
        ways.entry(packet.way())
            .or_default()
            .number(packet.id, host)
    })
}

/// The new identifications of the packets of one direction of a connection.
#[derive(Default)]
struct Counted {
    last: Option<u16>,
    others: HashMap<u16, u16>,
}

impl Counted {
    fn number(&mut self, id: u16, host: &mut u16) -> u16 {
        let ahead = self.last.map_or(1, |last| id.wrapping_sub(last));
        if id == 0 {
            *host = host.wrapping_add(1);
            return *host;
        }
        let is_late = self
            .last
            .is_some_and(|last| last.wrapping_sub(id) <= PASSED);
        if let Some(known) = self.others.get(&id).filter(|_| is_late) {
            return *known;
        }
        // The identifications that were skipped belong to packets that were lost or are late.
        let passed = if ahead <= PASSED { ahead } else { 1 };
        for back in (0..passed).rev() {
            *host = host.wrapping_add(1);
            self.others.insert(id.wrapping_sub(back), *host);
        }
        self.last = Some(id);
        *host
    }
}

/// Returns the capture with identifications of zero, as on packets that are never fragmented.
pub(crate) fn none(capture: &Capture) -> Capture {
    replaced(capture, |_| 0)
}

/// Returns the capture with random identifications. Copies of a packet get the same one.
pub(crate) fn drawn(capture: &Capture, draw: &mut Draw) -> Capture {
    let mut known = HashMap::new();
    replaced(capture, |packet| {
        let seq = packet.tcp().map_or(0, |tcp| tcp.seq);
        let mut any = || draw.next() as u16 | 1;
        match packet.id {
            0 => any(),
            id => *known.entry((packet.way(), id, seq)).or_insert_with(any),
        }
    })
}

fn replaced(capture: &Capture, mut id: impl FnMut(&Packet) -> u16) -> Capture {
    let mut capture = capture.clone();
    for packet in capture
        .packets_mut()
        .filter(|packet| packet.source.is_ipv4())
    {
        packet.id = id(packet);
        packet.dont_fragment = true;
    }
    capture
}
