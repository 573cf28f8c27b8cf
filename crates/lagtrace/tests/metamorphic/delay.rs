//! Changes that add time: a host or a path stands still for a moment, or clients pause between
//! requests. Later packets of the connection are moved by the same time, and so are the TCP
//! timestamps of its ends.

use std::collections::HashMap;

use crate::capture::{Capture, Frame};
use crate::draw::Draw;
use crate::packet::Way;

const MS: i64 = 1_000_000;
/// The minimum and maximum duration of a standstill, in nanoseconds. It is shorter than any
/// retransmission timeout.
const STALL: (i64, i64) = (40 * MS, 170 * MS);
/// While the path stands still, packets queue and then arrive together. All packets within this
/// time after the first one count as queued, in nanoseconds.
const TOGETHER: i64 = 3 * MS;

/// The delay of one connection, identified by the direction from its client.
#[derive(Debug, Default)]
struct Later {
    by: i64,
    /// True if the last data came from the server.
    is_answered: bool,
    /// The time of the first packet that was held, and true if the server sent it.
    held: Option<(i64, bool)>,
    /// The milliseconds added to each TCP timestamp: of the server, and of the client.
    stamps: [HashMap<u32, u32>; 2],
}

/// The properties of a packet on which its delay depends.
#[derive(Clone, Copy, Debug)]
struct Passing {
    at: i64,
    is_servers: bool,
    has_data: bool,
}

/// The part that stands still for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Still {
    Client,
    Server,
    /// The path. All packets that come from the other end to the capture point are delayed.
    Path,
}

/// Returns the capture with one randomly chosen moment in which the client, the server or the path
/// stands still.
pub(crate) fn stalled(
    capture: &Capture,
    services: impl Fn(u16) -> bool,
    is_at_server: bool,
    draw: &mut Draw,
) -> Option<Capture> {
    let times = capture.frames.iter().map(|frame| frame.at);
    let (first, last) = (times.clone().min()?, times.max()?);
    let begin = first + ((last - first) as f64 * (0.15 + 0.7 * draw.part())) as i64;
    let end = begin + draw.from(STALL.0, STALL.1);
    let still = draw.one_of(&[Still::Client, Still::Server, Still::Path]);
    let is_held_by_server = match still {
        Still::Client => false,
        Still::Server => true,
        Still::Path => !is_at_server,
    };
    let mut delay = |later: &mut Later, passing: Passing| {
        let is_meant = passing.is_servers == is_held_by_server;
        let is_then = (begin..end).contains(&passing.at);
        if later.held.is_none() && is_meant && is_then {
            later.held = Some((passing.at, passing.is_servers));
            later.by += end - passing.at;
        }
        // Packets that the path delayed were sent, and got their TCP timestamp, before the
        // standstill ended.
        let was_sent = later.held.is_some_and(|(since, is_servers)| {
            is_servers == passing.is_servers && passing.at < since + TOGETHER
        });
        still == Still::Path && was_sent
    };
    Some(delayed(capture, services, &mut delay))
}

/// Returns the capture with pauses of random length before some requests of each connection.
pub(crate) fn paused(
    capture: &Capture,
    services: impl Fn(u16) -> bool,
    draw: &mut Draw,
) -> Capture {
    let one_in = draw.from(2, 12);
    let most = draw.from(100, 6000) * MS;
    let mut delay = |later: &mut Later, passing: Passing| {
        let is_next = !passing.is_servers && passing.has_data && later.is_answered;
        if is_next && draw.from(1, one_in) == 1 {
            later.by += draw.from(10 * MS, most);
        }
        false
    };
    delayed(capture, services, &mut delay)
}

/// Returns the capture with packets delayed by `delay`, which increases the delay of a connection
/// before some packets. It returns true for a packet that was sent before the delay, and keeps its
/// TCP timestamp.
fn delayed(
    capture: &Capture,
    services: impl Fn(u16) -> bool,
    delay: &mut dyn FnMut(&mut Later, Passing) -> bool,
) -> Capture {
    let mut capture = capture.clone();
    let mut connections: HashMap<Way, Later> = HashMap::new();
    for frame in &mut capture.frames {
        move_on(frame, &services, &mut connections, delay);
    }
    capture.sort();
    capture
}

fn move_on(
    frame: &mut Frame,
    services: &impl Fn(u16) -> bool,
    connections: &mut HashMap<Way, Later>,
    delay: &mut dyn FnMut(&mut Later, Passing) -> bool,
) {
    let at = frame.at;
    let Some(packet) = frame.packet_mut() else {
        return;
    };
    let (way, is_servers) = (packet.way(), services(packet.ports()[0]));
    let Some(tcp) = packet.tcp_mut() else { return };
    let from_client = if is_servers { way.back() } else { way };
    let later = connections.entry(from_client).or_default();
    let passing = Passing {
        at,
        is_servers,
        has_data: tcp.payload.len > 0,
    };
    let was_sent = delay(later, passing);
    if passing.has_data {
        later.is_answered = is_servers;
    }
    let by = later.by;
    if let Some([value, echo]) = tcp.timestamps() {
        let passed = u32::try_from(by / MS).unwrap_or(u32::MAX);
        let [own, peer] = if is_servers { [0, 1] } else { [1, 0] };
        let own_passed = if was_sent { 0 } else { passed };
        later.stamps[own].insert(value, own_passed);
        let echoed = later.stamps[peer].get(&echo).copied().unwrap_or_default();
        tcp.set_timestamps([value.wrapping_add(own_passed), echo.wrapping_add(echoed)]);
    }
    frame.at = at + by;
}
