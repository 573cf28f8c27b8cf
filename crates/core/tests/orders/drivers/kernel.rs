//! Drivers of what this host's kernel reports: turns, passages and upstreams of connections.

use lagtrace_core::observed::event::{EventBody, Upstream};
use lagtrace_core::observed::kernel_span::{KernelHold, Program, RequestSpan};
use lagtrace_core::observed::passage::{BytePassage, PassagePoint, PassingThread};
use lagtrace_core::observed::time::Timestamp;

use super::{REQUEST, RESPONSE};
use crate::subject::{ACK, Analysis, Ends, Fed, START, Subject, address, end};

fn program(key: u32) -> Program {
    Program {
        pid: key,
        tid: key,
        name: format!("p{key}"),
    }
}

fn turn(ends: &Ends, nanos: i64, key: u32) -> EventBody {
    let at = |micros: i64| Timestamp::from_nanos(nanos + micros * 1_000);
    EventBody::Turn(Box::new(RequestSpan {
        local: ends.server,
        remote: ends.client,
        program: Some(program(key)),
        arrived: at(0),
        entered: None,
        delivered: at(1),
        delivered_last: at(1),
        read: Some(at(2)),
        written: Some(at(3)),
        written_last: Some(at(3)),
        sent: at(4),
        sent_last: at(4),
        departure: None,
        refused: None,
        writes: 1,
        held: KernelHold::default(),
        thread: None,
        asked: None,
    }))
}

/// Turns of one connection, by their times, and exchanges at other times.
pub(super) fn turns(_: u32) -> Box<dyn Subject> {
    let ends = Ends::usual();
    Fed::by(Analysis::new(), move |analysis, key| {
        let nanos = START + i64::from(key) * 1_000_000;
        analysis.event(turn(&ends, nanos, 1));
    })
}

/// Turns of connections by their ports, with their exchanges.
pub(super) fn turns_by_port(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        let port = 1_024 + (key & 0x7fff) as u16;
        let ends = Ends::new(end(1 + (key >> 15), port), end(9_000_000, 80));
        let nanos = analysis.nanos;
        analysis.event(turn(&ends, nanos, key));
        analysis.open(&ends);
        analysis.tcp(&ends.up(1, 1), REQUEST);
        let asked = 1 + REQUEST.len() as u32;
        analysis.tcp(&ends.down(1, asked), RESPONSE);
        let told = 1 + RESPONSE.len() as u32;
        analysis.tcp(&ends.up(asked, told).flags(ACK), b"");
    })
}

fn passage(ends: &Ends, key: u32, start: u32) -> EventBody {
    let nanos = START + i64::from(key) * 1_000;
    EventBody::Passage(Box::new(BytePassage {
        local: ends.server,
        remote: ends.client,
        gate: PassagePoint::Read(Box::new(PassingThread {
            program: program(1),
            thread: None,
        })),
        at: Timestamp::from_nanos(nanos),
        start,
        end: start + 10,
    }))
}

/// Passages of one connection, by their bytes.
pub(super) fn passages(_: u32) -> Box<dyn Subject> {
    let ends = Ends::usual();
    Fed::by(Analysis::new(), move |analysis, key| {
        analysis.event(passage(&ends, key, key * 10));
    })
}

/// Passages of connections by their ports.
pub(super) fn passages_by_port(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        let port = 1_024 + (key & 0x7fff) as u16;
        let ends = Ends::new(end(1 + (key >> 15), port), end(9_000_000, 80));
        analysis.event(passage(&ends, key, 1));
    })
}

/// Servers that a server asks.
pub(super) fn upstreams(_: u32) -> Box<dyn Subject> {
    Fed::by(Analysis::new(), move |analysis, key| {
        analysis.event(EventBody::Upstream(Upstream {
            caller: address(1 + key % 7),
            endpoint: end(100 + key, 80),
        }));
    })
}
