//! Exchanges as a native Perfetto trace, for `ui.perfetto.dev` and `trace_processor`.
//!
//! Each server is a process and each connection a track of it. An exchange is a slice that contains
//! the slices of its waits; the stages in the server's kernel are a track below the connection's.
//! Exchanges of one connection that overlap (pipelining, HTTP/2) are on separate tracks, because
//! the slices of one track must nest. Arrows lead from requests to a proxy to those that it passed
//! on.
//!
//! The trace is written as exchanges close. `trace_processor` sorts it by time.

mod flows;
mod proto;

use std::collections::BTreeMap;
use std::io::{self, Write};

use lagtrace_core::report::{ExchangeRecord, Exemplar, PassedOn};

use super::words;
use flows::Tracks;
use proto::Message;

/// Maximum number of connections that are remembered. Beyond it, all are forgotten: a connection
/// that continues gets a second track of the same name.
const MAX_CONNECTIONS: usize = 1 << 16;
/// Maximum number of tracks of one connection. HTTP/2 servers rarely allow more streams at once.
const MAX_LANES: usize = 256;
/// The only writer of the trace (`trusted_packet_sequence_id`).
const SEQUENCE: u64 = 1;
/// `BUILTIN_CLOCK_REALTIME` and `BUILTIN_CLOCK_BOOTTIME` in Perfetto's `builtin_clock.proto`.
const REALTIME: u64 = 1;
const BOOTTIME: u64 = 6;

/// A trace that is being written.
#[derive(Debug, Default)]
pub(crate) struct Perfetto {
    /// The track of each server.
    servers: BTreeMap<String, u64>,
    connections: BTreeMap<(String, String), Connection>,
    tracks: Tracks,
    last_track: u64,
    /// Number of exchanges that overlapped with too many others.
    left_out: u64,
}

/// The tracks of a connection.
#[derive(Debug)]
struct Connection {
    /// The number in the names of the tracks of the same server.
    server: u64,
    lanes: Vec<Lane>,
}

/// A track of exchanges that do not overlap, and the track of their kernel stages.
#[derive(Clone, Copy, Debug)]
struct Lane {
    track: u64,
    kernel: Option<u64>,
    /// End of its last slice.
    end_ns: i64,
}

impl Perfetto {
    /// Writes the exchange. Exchanges of a connection must come in the order in which they ended.
    pub(crate) fn exchange(
        &mut self,
        record: &ExchangeRecord,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        let mut out = Vec::new();
        if self.last_track == 0 {
            clocks(record.exchange.start_ns, &mut out);
        }
        match self.lane(record, &mut out) {
            Some(lane) => {
                self.tracks.add(&record.exchange, lane.track);
                slices(record, lane, &mut out);
            }
            None => self.left_out += 1,
        }
        to.write_all(&out)
    }

    /// Writes what comes after the exchanges. Readers refuse an empty file: a trace without
    /// exchanges has a process that says so.
    pub(crate) fn end(&mut self, passed_on: &[PassedOn], to: &mut dyn Write) -> io::Result<()> {
        let mut out = Vec::new();
        if self.last_track == 0 {
            clocks(0, &mut out);
            self.server("no exchanges", &mut out);
        }
        self.tracks.flows(passed_on, &mut out);
        to.write_all(&out)
    }

    /// Returns the number of exchanges that are not in the trace.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    fn new_track(&mut self) -> u64 {
        self.last_track += 1;
        self.last_track
    }

    fn server(&mut self, name: &str, out: &mut Vec<u8>) -> u64 {
        if let Some(track) = self.servers.get(name) {
            return *track;
        }
        let track = self.new_track();
        // Perfetto tells processes apart by their numbers: servers are numbered like tracks.
        let process = Message::new().uint(1, track).text(6, name);
        let descriptor = Message::new().uint(1, track).message(3, &process);
        packet(Message::new().message(60, &descriptor), out);
        self.servers.insert(name.to_owned(), track);
        track
    }

    /// Returns the track on which the exchange overlaps with no other; `None` if there are too many.
    fn lane(&mut self, record: &ExchangeRecord, out: &mut Vec<u8>) -> Option<Lane> {
        let Exemplar {
            client,
            server,
            start_ns,
            latency_ns,
            ..
        } = &record.exchange;
        if self.connections.len() >= MAX_CONNECTIONS {
            self.connections.clear();
            self.servers.clear();
        }
        let key = (client.clone(), server.clone());
        if !self.connections.contains_key(&key) {
            let server = self.server(server, out);
            let lanes = Vec::new();
            self.connections
                .insert(key.clone(), Connection { server, lanes });
        }
        let lanes = self.connections.get(&key).map(|it| it.lanes.as_slice())?;
        let free = lanes.iter().position(|lane| lane.end_ns <= *start_ns);
        let at = match free {
            Some(at) => at,
            None if lanes.len() < MAX_LANES => self.add_lane(&key, out)?,
            None => return None,
        };
        let needs_kernel = !record.exchange.at_host.is_empty();
        let kernel = self.connections.get(&key)?.lanes.get(at)?.kernel;
        let added = (needs_kernel && kernel.is_none()).then(|| self.new_track());
        let lane = self.connections.get_mut(&key)?.lanes.get_mut(at)?;
        if let Some(track) = added {
            child(track, lane.track, "in the server's kernel", out);
            lane.kernel = Some(track);
        }
        lane.end_ns = start_ns.saturating_add_unsigned(*latency_ns);
        Some(*lane)
    }

    fn add_lane(&mut self, key: &(String, String), out: &mut Vec<u8>) -> Option<usize> {
        let track = self.new_track();
        let connection = self.connections.get_mut(key)?;
        let number = connection.lanes.len();
        let name = match number {
            0 => key.0.clone(),
            number => format!("{} ({})", key.0, number + 1),
        };
        child(track, connection.server, &name, out);
        connection.lanes.push(Lane {
            track,
            kernel: None,
            end_ns: i64::MIN,
        });
        Some(number)
    }
}

fn slices(record: &ExchangeRecord, lane: Lane, out: &mut Vec<u8>) {
    let exchange = &record.exchange;
    let name = match exchange.request.as_str() {
        "" => "exchange",
        request => request,
    };
    let mut event = begin(lane.track, name, "exchange");
    for (name, value) in remarks(record) {
        event = event.message(4, &Message::new().text(10, name).text(6, &value));
    }
    at(exchange.start_ns, event, out);
    let mut now = exchange.start_ns;
    for wait in &exchange.waits {
        let name = words::wait(wait.kind);
        at(now, begin(lane.track, name, words::owner(wait.owner)), out);
        now = now.saturating_add_unsigned(wait.duration_ns);
        at(now, end(lane.track), out);
    }
    let last = exchange
        .start_ns
        .saturating_add_unsigned(exchange.latency_ns);
    at(last, end(lane.track), out);
    if let Some(track) = lane.kernel {
        stages(exchange, track, out);
    }
}

/// Writes the stages in the server's kernel. Their order and durations are measured, but not their
/// position within the exchange: they are drawn from the start of the server's first wait.
fn stages(exchange: &Exemplar, track: u64, out: &mut Vec<u8>) {
    let before = exchange.waits.iter();
    let before = before.take_while(|wait| words::owner(wait.owner) != "server");
    let mut now = before.fold(exchange.start_ns, |at, wait| {
        at.saturating_add_unsigned(wait.duration_ns)
    });
    for stage in &exchange.at_host {
        at(now, begin(track, &stage.stage, "kernel"), out);
        now = now.saturating_add_unsigned(stage.duration_ns);
        at(now, end(track), out);
    }
}

/// Returns the facts that are shown beside the slice of an exchange.
fn remarks(record: &ExchangeRecord) -> Vec<(&'static str, String)> {
    let exchange = &record.exchange;
    let mut facts = vec![
        ("outcome", exchange.outcome.clone()),
        ("capture", record.capture.clone()),
        ("response bytes", record.response_bytes.to_string()),
    ];
    let numbers = [
        ("tcp.stream", record.stream),
        ("setup of the connection (ns)", record.setup_ns),
        ("first packet", exchange.first_packet),
        ("last packet", exchange.last_packet),
    ];
    let numbers = numbers.into_iter();
    facts.extend(numbers.filter_map(|(name, value)| Some((name, value?.to_string()))));
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// Writes the relation of the clocks: timestamps are those of the realtime clock.
fn clocks(now: i64, out: &mut Vec<u8>) {
    let now = now.max(0).unsigned_abs();
    let clock = |id| Message::new().uint(1, id).uint(2, now);
    let snapshot = Message::new()
        .message(1, &clock(BOOTTIME))
        .message(1, &clock(REALTIME));
    packet(Message::new().uint(8, now).message(6, &snapshot), out);
}

fn child(track: u64, parent: u64, name: &str, out: &mut Vec<u8>) {
    let descriptor = Message::new().uint(1, track).text(2, name).uint(5, parent);
    packet(Message::new().message(60, &descriptor), out);
}

fn begin(track: u64, name: &str, category: &str) -> Message {
    let event = Message::new().uint(9, 1).uint(11, track);
    event.text(22, category).text(23, name)
}

fn end(track: u64) -> Message {
    Message::new().uint(9, 2).uint(11, track)
}

/// Writes a `TrackEvent` at this time.
fn at(nanos: i64, event: Message, out: &mut Vec<u8>) {
    let time = nanos.max(0).unsigned_abs();
    packet(Message::new().uint(8, time).message(11, &event), out);
}

/// Writes a `TracePacket`, a field of `Trace`.
fn packet(packet: Message, out: &mut Vec<u8>) {
    let packet = packet.uint(10, SEQUENCE);
    out.extend(Message::new().message(1, &packet).into_bytes());
}
