//! Passages of connections on which requests overtake each other, and the spans of their requests.
//! The bytes of a request and of its response are known from packets, and passages tell when these
//! bytes were read, written and sent.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::TIMESTAMP_ERROR;
use crate::exchange::{Exchange, Positions};
use crate::observed::flow::Endpoint;
use crate::observed::kernel_span::{Departure, KernelHold, RequestSpan, ThreadTimes};
use crate::observed::passage::{BytePassage, PassagePoint, PassingThread};
use crate::observed::time::Timestamp;
use crate::stats::Merge;

/// Maximum number of passages kept. If there are more, the older half of each connection's is
/// dropped.
const MAX_PASSAGES: usize = 1 << 17;

/// Passages by the client's address and the server's.
#[derive(Debug, Default, Merge)]
pub(super) struct Passages {
    #[merge(extend)]
    connections: BTreeMap<(Endpoint, Endpoint), Gates>,
    count: usize,
    /// True if there were any.
    #[merge(any)]
    is_fed: bool,
}

/// The passages of one connection, by their gates, in the order of their bytes.
#[derive(Debug, Default)]
struct Gates {
    gates: [VecDeque<BytePassage>; PassagePoint::COUNT],
    /// The time of the earliest passage.
    since: Option<Timestamp>,
}

impl Passages {
    pub(super) fn is_fed(&self) -> bool {
        self.is_fed
    }

    pub(super) fn put(&mut self, passage: BytePassage) {
        self.is_fed = true;
        if self.count >= MAX_PASSAGES {
            self.drop_older();
        }
        let ends = (passage.remote, passage.local);
        let gates = self.connections.entry(ends).or_default();
        self.count += usize::from(gates.put(passage));
    }

    /// Returns true if the exchange's connection had passages when the exchange began.
    pub(super) fn concern(&self, exchange: &Exchange) -> bool {
        let gates = self
            .connections
            .get(&(exchange.id.client, exchange.id.server));
        let since = gates.and_then(|gates| gates.since);
        since.is_some_and(|since| since <= exchange.begin + TIMESTAMP_ERROR)
    }

    /// Returns the span of the exchange; `None` if it is not known for each of its first and last
    /// bytes when they passed.
    pub(super) fn span(&self, exchange: &Exchange, bytes: &Positions) -> Option<RequestSpan> {
        let gates = self
            .connections
            .get(&(exchange.id.client, exchange.id.server))?;
        gates.span(bytes)
    }

    fn drop_older(&mut self) {
        self.connections.retain(|_, gates| gates.drop_older());
        let counts = self.connections.values().map(Gates::count);
        self.count = counts.sum();
    }
}

impl Gates {
    fn count(&self) -> usize {
        self.gates.iter().map(VecDeque::len).sum()
    }

    /// Adds a passage. Returns false if its bytes have passed before: a retransmission does not
    /// tell when they passed first.
    fn put(&mut self, passage: BytePassage) -> bool {
        self.since = Some(self.since.map_or(passage.at, |since| since.min(passage.at)));
        let Some(gate) = self.gates.get_mut(passage.gate.place()) else {
            return false;
        };
        let is_new = gate
            .back()
            .is_none_or(|last| is_after(passage.end, last.end));
        if is_new {
            gate.push_back(passage);
        }
        is_new
    }

    /// Drops the older half of the passages. Returns false if none is left.
    fn drop_older(&mut self) -> bool {
        for gate in &mut self.gates {
            gate.drain(..gate.len().div_ceil(2));
        }
        self.count() > 0
    }

    /// Returns the place of the first passage of the byte with this sequence number.
    fn place(&self, gate: usize, byte: u32) -> Option<usize> {
        let gate = self.gates.get(gate)?;
        let place = gate.partition_point(|passage| !is_after(passage.end, byte));
        let passage = gate.get(place)?;
        (!is_after(passage.start, byte)).then_some(place)
    }

    fn passage(&self, gate: usize, byte: u32) -> Option<&BytePassage> {
        self.gates.get(gate)?.get(self.place(gate, byte)?)
    }

    fn arrival(&self, byte: u32) -> Option<(Timestamp, Option<Timestamp>, Timestamp)> {
        let passage = self.passage(PassagePoint::DELIVERED, byte)?;
        match passage.gate {
            PassagePoint::Delivered { arrived, entered } => Some((arrived, entered, passage.at)),
            _ => None,
        }
    }

    fn read(&self, byte: u32) -> Option<(Timestamp, &PassingThread)> {
        let passage = self.passage(PassagePoint::READ, byte)?;
        match &passage.gate {
            PassagePoint::Read(caller) => Some((passage.at, caller)),
            _ => None,
        }
    }

    fn written(&self, byte: u32) -> Option<(Timestamp, &PassingThread)> {
        let passage = self.passage(PassagePoint::WRITTEN, byte)?;
        match &passage.gate {
            PassagePoint::Written(caller) => Some((passage.at, caller)),
            _ => None,
        }
    }

    fn sent(&self, byte: u32) -> Option<Timestamp> {
        self.passage(PassagePoint::SENT, byte)
            .map(|passage| passage.at)
    }

    fn left(&self, byte: u32) -> Option<(Timestamp, Duration)> {
        let passage = self.passage(PassagePoint::LEFT, byte)?;
        match passage.gate {
            PassagePoint::Left { queued } => Some((passage.at, queued)),
            _ => None,
        }
    }

    /// Returns the number of writes from the one of byte `first` to the one of byte `last`.
    fn writes(&self, first: u32, last: u32) -> Option<u32> {
        let places =
            self.place(PassagePoint::WRITTEN, first)?..=self.place(PassagePoint::WRITTEN, last)?;
        u32::try_from(places.count()).ok()
    }

    /// Returns the parts that Nagle's algorithm held of the bytes from `first` to `last`.
    fn held(&self, first: u32, last: u32) -> Option<KernelHold> {
        let places =
            self.place(PassagePoint::SENT, first)?..=self.place(PassagePoint::SENT, last)?;
        let mut all = KernelHold::default();
        for passage in self.gates.get(PassagePoint::SENT)?.range(places) {
            if let PassagePoint::Sent {
                held,
                after_arrival,
            } = passage.gate
                && !held.is_zero()
            {
                all.times += 1;
                all.after_arrival += u32::from(after_arrival);
                all.total += held;
                all.longest = all.longest.max(held);
            }
        }
        Some(all)
    }

    fn span(&self, bytes: &Positions) -> Option<RequestSpan> {
        let [asked, asked_last] = bytes.request;
        let [told, told_last] = bytes.response;
        let (arrived, entered, delivered) = self.arrival(asked)?;
        let (_, _, delivered_last) = self.arrival(asked_last)?;
        let (read, reader) = self.read(asked)?;
        let (written, _) = self.written(told)?;
        let (written_last, writer) = self.written(told_last)?;
        let (left, first_queued) = self.left(told).unzip();
        let departure = self.left(told_last).map(|(at, queued)| Departure {
            at,
            first_queued: first_queued.unwrap_or_default(),
            queued,
        });
        let first = self.passage(PassagePoint::DELIVERED, asked)?;
        Some(RequestSpan {
            local: first.local,
            remote: first.remote,
            program: Some(reader.program.clone()),
            arrived,
            entered,
            delivered,
            delivered_last,
            read: Some(read),
            written: Some(written),
            written_last: Some(written_last),
            sent: self.sent(told)?.min(left.unwrap_or(Timestamp::MAX)),
            sent_last: self.sent(told_last)?,
            departure,
            refused: None,
            writes: self.writes(told, told_last)?,
            held: self.held(told, told_last)?,
            thread: thread_times(reader, writer),
            asked: None,
        })
    }
}

/// Returns the thread's times from its read to its write; `None` if another thread answered.
fn thread_times(reader: &PassingThread, writer: &PassingThread) -> Option<ThreadTimes> {
    let (before, after) = (reader.thread?, writer.thread?);
    // In another sampling period, the sums begin again.
    let is_same = reader.program.tid == writer.program.tid && after.slept >= before.slept;
    is_same.then(|| ThreadTimes {
        queued: after.queued.saturating_sub(before.queued),
        waking: after.waking.saturating_sub(before.waking),
        slept: after.slept.saturating_sub(before.slept),
        ..before
    })
}

/// Returns true if a sequence number follows another (RFC 9293 §3.4).
fn is_after(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) as i32 > 0
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::observed::kernel_span::{Program, Stage};

    /// The bytes of two streams.
    const FIRST: Positions = Positions {
        request: [0, 99],
        response: [300, 399],
    };
    const SECOND: Positions = Positions {
        request: [100, 199],
        response: [0, 299],
    };

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_nanos(micros * 1000)
    }

    fn passage(gate: PassagePoint, micros: i64, bytes: core::ops::Range<u32>) -> BytePassage {
        let end = |port| Endpoint::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        BytePassage {
            local: end(80),
            remote: end(40_000),
            gate,
            at: at(micros),
            start: bytes.start,
            end: bytes.end,
        }
    }

    fn delivered(micros: i64) -> PassagePoint {
        PassagePoint::Delivered {
            arrived: at(micros - 5),
            entered: Some(at(micros - 5)),
        }
    }

    fn sent(held: u64) -> PassagePoint {
        PassagePoint::Sent {
            held: Duration::from_micros(held),
            after_arrival: held > 0,
        }
    }

    fn left(micros: u64) -> PassagePoint {
        PassagePoint::Left {
            queued: Duration::from_micros(micros),
        }
    }

    /// Returns a caller whose thread had slept for so many µs so far.
    fn caller(tid: u32, slept: u64) -> Box<PassingThread> {
        Box::new(PassingThread {
            program: Program {
                pid: 1,
                tid,
                name: "server".to_owned(),
            },
            thread: Some(ThreadTimes {
                slept: Duration::from_micros(slept),
                ..ThreadTimes::default()
            }),
        })
    }

    /// Two requests in turn; the second one is answered first, in two writes.
    fn passages(writer: u32) -> Vec<BytePassage> {
        vec![
            passage(delivered(10), 10, 0..100),
            passage(PassagePoint::Read(caller(1, 0)), 30, 0..100),
            passage(delivered(50), 50, 100..200),
            passage(PassagePoint::Read(caller(1, 10)), 60, 100..200),
            passage(sent(0), 90, 0..200),
            passage(left(2), 93, 0..200),
            passage(PassagePoint::Written(caller(writer, 30)), 90, 0..200),
            passage(PassagePoint::Written(caller(writer, 40)), 100, 200..300),
            passage(sent(15), 120, 200..300),
            passage(left(3), 124, 200..300),
            passage(PassagePoint::Written(caller(writer, 400)), 500, 300..400),
            passage(sent(0), 500, 300..400),
            passage(left(4), 505, 300..400),
        ]
    }

    fn gates(passages: Vec<BytePassage>) -> Gates {
        let mut gates = Gates::default();
        for passage in passages {
            gates.put(passage);
        }
        gates
    }

    #[test]
    fn requests_that_overtake_each_other_are_told_by_their_bytes() {
        let gates = gates(passages(1));
        let first = gates.span(&FIRST).expect("all bytes passed");
        assert_eq!((first.arrived, first.read), (at(5), Some(at(30))));
        assert_eq!((first.sent, first.written_last), (at(500), Some(at(500))));
        assert_eq!((first.writes, first.left()), (1, at(505)));
        let slept = first.thread.map(|thread| thread.slept);
        assert_eq!(slept, Some(Duration::from_micros(400)));
        let second = gates.span(&SECOND).expect("all bytes passed");
        assert_eq!((second.arrived, second.read), (at(45), Some(at(60))));
        assert_eq!((second.sent, second.sent_last), (at(90), at(120)));
        assert_eq!((second.writes, second.left()), (2, at(124)));
        assert_eq!((second.held.times, second.held.after_arrival), (1, 1));
        assert_eq!(second.held.total, Duration::from_micros(15));
        assert_eq!(first.held, KernelHold::default());
        let stages = second.stages().expect("read and written");
        assert_eq!(stages[Stage::Waiting as usize], Duration::from_micros(30));
        assert_eq!(stages.iter().sum::<Duration>(), second.duration());
    }

    #[test]
    fn the_times_of_a_thread_explain_only_what_it_answers_itself() {
        let span = gates(passages(2)).span(&SECOND).expect("all bytes passed");
        assert_eq!(span.thread, None);
        assert_eq!(span.written, Some(at(90)));
    }

    #[test]
    fn a_retransmission_does_not_tell_when_bytes_passed() {
        let mut all = passages(1);
        all.push(passage(delivered(700), 700, 0..200));
        all.push(passage(left(0), 800, 0..400));
        assert_eq!(gates(all).span(&SECOND), gates(passages(1)).span(&SECOND));
    }

    /// A near miss: a later passage is not that of these bytes.
    #[test]
    fn bytes_that_were_not_seen_passing_are_not_guessed() {
        for unseen in [0, 1, 4, 6, 7, 8] {
            let mut all = passages(1);
            all.remove(unseen);
            let gates = gates(all);
            let known = [&FIRST, &SECOND].map(|bytes| gates.span(bytes).is_some());
            let expected = [unseen > 1, unseen <= 1];
            assert_eq!(known, expected, "without passage {unseen}");
        }
    }

    #[test]
    fn positions_continue_across_the_end_of_the_sequence_numbers() {
        let shift = u32::MAX - 150;
        let moved = passages(1).into_iter().map(|passage| BytePassage {
            start: passage.start.wrapping_add(shift),
            end: passage.end.wrapping_add(shift),
            ..passage
        });
        let gates_moved = gates(moved.collect());
        for bytes in [FIRST, SECOND] {
            let shifted = |ends: [u32; 2]| ends.map(|byte| byte.wrapping_add(shift));
            let moved = Positions {
                request: shifted(bytes.request),
                response: shifted(bytes.response),
            };
            let span = gates(passages(1)).span(&bytes);
            assert!(span.is_some());
            assert_eq!(gates_moved.span(&moved), span);
        }
    }

    #[test]
    fn only_so_many_passages_are_kept() {
        let mut all = Passages::default();
        for n in 0..MAX_PASSAGES as u32 + 10 {
            all.put(passage(sent(0), i64::from(n), n..n + 1));
        }
        let kept = all.connections.values().map(Gates::count).sum::<usize>();
        assert_eq!((all.count, kept), (kept, MAX_PASSAGES / 2 + 10));
        let newest = all
            .connections
            .values()
            .next()
            .and_then(|gates| gates.sent(MAX_PASSAGES as u32));
        assert_eq!(newest, Some(at(MAX_PASSAGES as i64)));
    }
}
