//! Plays a script: sends the segments of both ends, and records the packets that pass the capture
//! point.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;

use lagtrace_core::observed::event::{Event, PointId};
use lagtrace_core::observed::flow::{Endpoint, FlowKey, Transport};
use lagtrace_core::observed::segment::{IpFacts, Segment, SentBy, TcpFlags, TcpOptions};
use lagtrace_core::observed::time::Timestamp;

use crate::aside::{self, Aside};
use crate::block::{Point, Run};
use crate::event;
use crate::script::{End, Fate, Item, SegmentLine, Time};
use crate::sum::{Nanos, Sum, Values};

/// The time that a kernel takes for an immediate answer, in nanoseconds.
const KERNEL: Nanos = 5_000;
/// The start time of each trace, in nanoseconds since 1970.
const START: Nanos = 1_700_000_000_000_000_000;
const WINDOW_SHIFT: u8 = 7;
const WINDOW: u32 = 64_128;

/// Returns the server of each trace.
pub(crate) fn server() -> Endpoint {
    Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)), 8080)
}

/// The bit in the number of a connection from the server's host to its upstream.
const LEGS: u16 = 1 << 13;

/// Returns the client of a connection.
pub(crate) fn client(connection: u16) -> Endpoint {
    let host = if connection & LEGS == 0 { 1 } else { 2 };
    Endpoint::new(
        IpAddr::V4(Ipv4Addr::new(10, 77, 0, host)),
        40_000 + connection,
    )
}

/// Returns the server of a connection.
fn server_of(connection: u16) -> Endpoint {
    match connection & LEGS {
        0 => server(),
        _ => Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 3)), 9000),
    }
}

/// The result of playing a script.
#[derive(Debug, Default)]
pub(crate) struct Played {
    /// The segments, in the order in which they pass the capture point.
    pub(crate) segments: Vec<(Segment, Vec<u8>)>,
    pub(crate) asides: Vec<(Timestamp, Aside)>,
    pub(crate) events: Vec<Event>,
}

/// A segment that was sent.
#[derive(Clone, Debug)]
struct Sent {
    connection: u16,
    line: SegmentLine,
    /// The time at which the segment would pass the capture point without `late`.
    at: Nanos,
    passes: Nanos,
    /// The time for which the segment waited in a queue before the capture point.
    queued: Nanos,
    again: Option<usize>,
    acks: Option<usize>,
    sacks: Option<usize>,
    dsacks: Option<usize>,
    /// The segment's range of sequence numbers. It is filled in when all segments are known.
    span: (u32, u32),
    id: u16,
}

struct Player<'a> {
    run: &'a Run,
    values: Values,
    now: Nanos,
    connection: u16,
    next_connection: u16,
    labels: BTreeMap<String, (Nanos, Option<usize>)>,
    sent: Vec<Sent>,
    asides: Vec<(Timestamp, Aside)>,
    events: Vec<Event>,
}

pub(crate) fn play(run: &Run, script: &[Item]) -> Result<Played, String> {
    let mut values = Values::of(run.variables.clone());
    values.named.insert("rtt".to_owned(), run.rtt);
    values
        .named
        .insert("server".to_owned(), travel(run, End::Server) + KERNEL);
    values
        .named
        .insert("client".to_owned(), travel(run, End::Client) + KERNEL);
    let mut player = Player {
        run,
        values,
        now: START,
        connection: 0,
        next_connection: 1,
        labels: BTreeMap::new(),
        sent: Vec::new(),
        asides: Vec::new(),
        events: Vec::new(),
    };
    player.items(script)?;
    let Player {
        mut sent,
        mut asides,
        events,
        ..
    } = player;
    asides.sort_by_key(|(at, _)| *at);
    number(&mut sent, run.mss);
    Ok(Played {
        segments: observe(run, &sent),
        asides,
        events,
    })
}

/// Returns the round trip from the capture point to an end.
fn travel(run: &Run, to: End) -> Nanos {
    match (run.point, to) {
        (Point::Client, End::Server) | (Point::Server, End::Client) => run.rtt,
        (Point::Middle, _) => run.rtt / 2,
        _ => 0,
    }
}

impl Player<'_> {
    fn items(&mut self, items: &[Item]) -> Result<(), String> {
        for item in items {
            match item {
                Item::Segment(line) => {
                    let in_line = |e: String| format!("line {}: {e}", line.number);
                    self.segment(line).map_err(in_line)?;
                }
                Item::Aside(number, time, words) => {
                    let in_line = |e: String| format!("line {number}: {e}");
                    self.aside(time, words).map_err(in_line)?;
                }
                Item::Handshake(time) => self.handshake(time)?,
                Item::Repeat(count, body) => {
                    let outer = self.values.index;
                    for index in 0..*count {
                        self.values.index = index;
                        self.items(body)?;
                    }
                    self.values.index = outer;
                }
                Item::Connections(count, every, body) => {
                    self.connections(*count, every, body, 0)?;
                }
                Item::Legs(count, every, body) => self.connections(*count, every, body, LEGS)?,
                Item::Event((number, words)) => {
                    let made =
                        event::make(words, Timestamp::from_nanos(self.now), &mut self.values);
                    self.events
                        .extend(made.map_err(|e| format!("line {number}: {e}"))?);
                }
            }
        }
        Ok(())
    }

    fn connections(
        &mut self,
        count: u32,
        every: &Sum,
        body: &[Item],
        kind: u16,
    ) -> Result<(), String> {
        let (outer, index) = (self.connection, self.values.index);
        let (mut start, mut end) = (self.now, self.now);
        for index in 0..count {
            self.connection = self.next_connection | kind;
            self.next_connection += 1;
            self.values.index = index;
            self.now = start;
            self.items(body)?;
            end = end.max(self.now);
            self.values.index = index;
            start += every.value(&mut self.values)?;
        }
        self.connection = outer;
        self.values.index = index;
        self.now = end;
        Ok(())
    }

    fn handshake(&mut self, time: &Sum) -> Result<(), String> {
        let start = time.value(&mut self.values)?;
        let line = |words: &str| {
            let words = words.split_whitespace().map(str::to_owned).collect();
            crate::script::parse(&[(0, words)])
        };
        self.now += start;
        for words in ["+0 C > S S", "+server S > C S.", "+client C > S ."] {
            self.items(&line(words)?)?;
        }
        Ok(())
    }

    fn aside(&mut self, time: &Time, words: &[String]) -> Result<(), String> {
        self.now = self.time(time)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let made = aside::parse(&words, self.connection);
        let aside = made.ok_or("no such packet")??;
        self.asides.push((Timestamp::from_nanos(self.now), aside));
        Ok(())
    }

    fn time(&mut self, time: &Time) -> Result<Nanos, String> {
        Ok(match time {
            Time::After(sum) => self.now + sum.value(&mut self.values)?,
            Time::From(label, sum) => self.label(label)?.0 + sum.value(&mut self.values)?,
        })
    }

    fn segment(&mut self, line: &SegmentLine) -> Result<(), String> {
        let at = self.time(&line.time)?;
        if let Some(label) = &line.unless {
            // The segment is not sent if the labelled segment has already reached its sender.
            if self.label(label)?.0 <= at - travel(self.run, line.by) {
                return Ok(());
            }
        }
        let late = line
            .late
            .as_ref()
            .map(|late| late.value(&mut self.values))
            .transpose()?;
        let queued = line
            .queued
            .as_ref()
            .map(|queued| queued.value(&mut self.values))
            .transpose()?;
        let index = |label: &Option<String>| match label {
            Some(label) => self.label(label).map(|(_, index)| index),
            None => Ok(None),
        };
        let (again, acks) = (
            index(&line.repetition.again)?,
            index(&line.acknowledges.ack)?,
        );
        let (sacks, dsacks) = (
            index(&line.acknowledges.sack)?,
            index(&line.acknowledges.dsack)?,
        );
        self.now = at;
        if let Some(label) = &line.label {
            self.labels
                .insert(label.clone(), (at, Some(self.sent.len())));
        }
        self.sent.push(Sent {
            connection: self.connection,
            line: line.clone(),
            at,
            passes: at + late.unwrap_or_default(),
            queued: queued.unwrap_or_default(),
            again,
            acks,
            sacks,
            dsacks,
            span: (0, 0),
            id: 0,
        });
        Ok(())
    }

    /// Returns the time of a label. In a repeated block, a label further down still has its time
    /// from the previous repetition.
    fn label(&self, label: &str) -> Result<(Nanos, Option<usize>), String> {
        if label == "start" {
            return Ok((START, None));
        }
        let found = self.labels.get(label).copied();
        found.ok_or(format!("nothing before is labelled `{label}`"))
    }
}

/// Gives each segment its sequence number and its IP identification, in the order in which its end
/// sent it.
fn number(sent: &mut [Sent], mss: u16) {
    let mut order: Vec<usize> = (0..sent.len()).collect();
    order.sort_by_key(|&index| sent[index].at);
    let mut next: BTreeMap<(u16, bool), (u32, u16)> = BTreeMap::new();
    for index in order {
        let segment = &sent[index];
        let is_client = segment.line.by == End::Client;
        let (first, first_id) = if is_client {
            (1000, 7000)
        } else {
            (900_000, 21_000)
        };
        let key = (segment.connection, is_client);
        let (mut seq, mut id) = next.get(&key).copied().unwrap_or((first, first_id));
        let flags = segment.line.flags;
        let span = match segment.again {
            Some(original) => {
                let (start, end) = sent[original].span;
                let part = segment
                    .line
                    .repetition
                    .part
                    .map_or(end - start, |part| part as u32);
                (start, end.min(start + part))
            }
            // A repeated SYN has the same sequence number.
            None if flags.contains(TcpFlags::SYN) => (first, first + 1),
            None => {
                let fin = u32::from(flags.contains(TcpFlags::FIN));
                (seq, seq + segment.line.payload.len() as u32 + fin)
            }
        };
        seq = seq.max(span.1);
        let is_answer = flags.contains(TcpFlags::SYN) && !is_client;
        let copied = segment.again.filter(|_| segment.line.repetition.is_copy);
        let own_id = match copied {
            Some(original) => sent[original].id,
            None if is_answer => 0,
            None => id,
        };
        if !is_answer && copied.is_none() {
            let parts = span
                .1
                .saturating_sub(span.0)
                .div_ceil(u32::from(mss))
                .max(1);
            id = id.wrapping_add(parts as u16);
        }
        next.insert(key, (seq, id));
        let payload = segment
            .again
            .map(|original| sent[original].line.payload.clone());
        let segment = &mut sent[index];
        segment.span = span;
        segment.id = own_id;
        if let Some(mut payload) = payload {
            payload.truncate((span.1 - span.0) as usize);
            segment.line.payload = payload;
        }
    }
}

/// Returns the segments that pass the capture point, with their ACK numbers.
fn observe(run: &Run, sent: &[Sent]) -> Vec<(Segment, Vec<u8>)> {
    let mut order: Vec<&Sent> = sent.iter().collect();
    order.sort_by_key(|segment| segment.passes);
    let seen = order
        .iter()
        .filter(|s| matches!(s.line.fate, Fate::Arrives | Fate::LostBehind));
    (1_u64..)
        .zip(seen)
        .map(|(number, sent_one)| {
            let ack = match sent_one.acks {
                Some(other) => sent[other].span.1,
                None => arrived(run, &order, sent_one),
            };
            let mut seen = segment(run, sent_one, ack, number);
            // The D-SACK block comes first (RFC 2883 §4).
            let blocks = [sent_one.dsacks, sent_one.sacks].into_iter().flatten();
            for (slot, other) in seen.options.sack.iter_mut().zip(blocks) {
                *slot = sent[other].span;
                seen.options.sack_count += 1;
            }
            (seen, sent_one.line.payload.clone())
        })
        .collect()
}

/// Returns the ACK number of `segment`: the end of the peer's data that had arrived without a gap
/// when it was sent.
fn arrived(run: &Run, order: &[&Sent], segment: &Sent) -> u32 {
    let by = segment.line.by;
    let until = segment.at - travel(run, by);
    let mut spans: Vec<(u32, u32)> = order
        .iter()
        .filter(|other| {
            other.connection == segment.connection
                && other.line.by == by.peer()
                && matches!(other.line.fate, Fate::Arrives | Fate::Unseen)
                && other.passes < until
        })
        .map(|other| other.span)
        .collect();
    spans.sort_unstable();
    let mut reached = match spans.first() {
        Some(first) => first.0,
        // The trace begins in the middle of the connection, and all earlier data is acknowledged.
        None => order
            .iter()
            .find(|other| other.connection == segment.connection && other.line.by == by.peer())
            .map_or(0, |other| other.span.0),
    };
    for (start, end) in spans {
        if start <= reached {
            reached = reached.max(end);
        }
    }
    reached
}

fn segment(run: &Run, sent: &Sent, ack: u32, number: u64) -> Segment {
    let line = &sent.line;
    let (mut client, mut server) = (client(sent.connection), server_of(sent.connection));
    client.port = line.ports.from.unwrap_or(client.port);
    server.port = line.ports.at.unwrap_or(server.port);
    if line.ip.is_ipv6 {
        (client, server) = (aside::over_ipv6(client), aside::over_ipv6(server));
    }
    // A client that uses another port begins with other sequence numbers.
    let anew = match line.ports.from {
        Some(_) => u32::from(sent.connection) * 1_000_003,
        None => 0,
    };
    let other = if line.acknowledges.is_alien {
        12_345_678
    } else {
        0
    };
    let (source, destination) = match line.by {
        End::Client => (client, server),
        End::Server => (server, client),
    };
    let (flow, direction) = FlowKey::new(Transport::Tcp, source, destination);
    let is_syn = line.flags.contains(TcpFlags::SYN);
    let window = line.window.unwrap_or(WINDOW);
    Segment {
        at: Timestamp::from_nanos(sent.passes),
        number,
        point: PointId::default(),
        flow,
        direction,
        seq: sent.span.0.wrapping_add(anew),
        ack: if line.flags.contains(TcpFlags::ACK) {
            ack.wrapping_add(anew).wrapping_add(other)
        } else {
            0
        },
        flags: line.flags,
        window: (if is_syn {
            window
        } else {
            window >> WINDOW_SHIFT
        }) as u16,
        payload_len: line.payload.len() as u32,
        options: TcpOptions {
            mss: is_syn.then_some(run.mss),
            window_scale: is_syn.then_some(WINDOW_SHIFT),
            sack_permitted: is_syn,
            timestamps: run.has_timestamps.then(|| (stamp(run, sent), 1)),
            ..TcpOptions::default()
        },
        ip: IpFacts {
            ttl: line.ip.ttl,
            id: line.ip.has_id.then_some(sent.id),
            dont_fragment: true,
            congestion_marked: false,
            sent_by: SentBy::Unknown,
        },
    }
}

/// Returns the TSval: the time at which the sender made the segment, in milliseconds of its clock.
fn stamp(run: &Run, sent: &Sent) -> u32 {
    let made = sent.at - travel(run, sent.line.by) / 2 - sent.queued;
    ((made - START) / 1_000_000 + 10_000) as u32
}
