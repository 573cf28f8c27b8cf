//! A connection in detail: bytes, packets as ladders, figures over time.

use std::fmt::Write as _;

use lagtrace_core::exchange::Exchange;
use lagtrace_core::exchange::wait::{Wait, WaitKind};
use lagtrace_core::observed::flow::{Direction, Endpoint};
use lagtrace_core::observed::segment::{Segment, TcpFlags};
use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::views::stream_view::{Turn, WaySamples};
use lagtrace_sources::capture::Comments;

use super::plot::{Series, plot};
use super::{Length, Style, quantity, words};

/// Maximum number of exchanges whose ladder is shown, unless verbose.
const LADDERS: usize = 5;
/// Maximum number of packets in a ladder.
const PACKETS: usize = 60;
/// Minimum share of the exchange at which a wait is part of its ladder.
const WORTH_A_LINE: f64 = 0.02;
/// Width left of the arrows, in columns.
const MARGIN: usize = 24;

/// A connection whose packets were kept.
pub(crate) struct Stream {
    pub(crate) number: u64,
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    /// The direction in which the client sends.
    pub(crate) up: Direction,
    pub(crate) segments: Vec<Segment>,
    pub(crate) turns: Vec<Turn>,
    /// The samples over time of both directions: that of the client, and that of the server.
    pub(crate) samples: [WaySamples; 2],
    pub(crate) exchanges: Vec<Exchange>,
    /// The capture's comments on the connection's packets.
    pub(crate) comments: Comments,
    /// True if the connection has more packets than can be kept; the last ones are missing then.
    pub(crate) is_cut: bool,
}

/// Returns the headline: stream number, endpoints, and the numbers of packets and exchanges.
pub(crate) fn head(stream: &Stream) -> String {
    let cut = if stream.is_cut {
        " (its beginning: it is too long)"
    } else {
        ""
    };
    format!(
        "tcp.stream {}: {} → {}, {}, {}{cut}\n",
        stream.number,
        stream.client,
        stream.server,
        quantity::counted(stream.segments.len() as u64, "packet", "packets"),
        quantity::counted(stream.exchanges.len() as u64, "exchange", "exchanges"),
    )
}

/// Header fields whose values are left out of a text, in addition to those that end in `-key` or
/// `-token`.
const SECRETS: [&str; 4] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "set-cookie",
];

/// Returns the bytes of both directions in turn, as text without credentials, or as hex with all of
/// them. In hex, the server's bytes are indented.
pub(crate) fn bytes(stream: &Stream, is_hex: bool) -> String {
    let mut text = String::new();
    let mut offsets = [0_u64; 2];
    for turn in &stream.turns {
        let is_client = turn.direction == stream.up;
        let who = if is_client {
            "→ client"
        } else {
            "← server"
        };
        let len = quantity::counted(turn.bytes.len() as u64, "byte", "bytes");
        writeln!(text, "\n{who}, {len}, from packet {}", turn.packet).expect("memory takes all");
        let mut begin = 0;
        let ends = turn.missing.iter().map(|&(at, count)| (at, Some(count)));
        for (end, missing) in ends.chain([(turn.bytes.len(), None)]) {
            let piece = turn.bytes.get(begin..end).unwrap_or_default();
            begin = end;
            if is_hex {
                hex(
                    &mut text,
                    piece,
                    &mut offsets[usize::from(!is_client)],
                    !is_client,
                )
            } else {
                plain(&mut text, piece)
            }
            if let Some(missing) = missing {
                writeln!(text, "[{missing} bytes missing in the capture]").expect("memory");
                offsets[usize::from(!is_client)] += missing;
            }
        }
    }
    text
}

/// Appends bytes as text, with a dot for each character that a terminal would interpret.
fn plain(text: &mut String, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let shown = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let lines: Vec<&str> = shown.split('\n').map(without_secret).collect();
    for c in lines.join("\n").chars() {
        match c {
            '\n' | '\t' => text.push(c),
            c if super::escape::escape(c.encode_utf8(&mut [0; 4])) != c.to_string() => {
                text.push('.');
            }
            c => text.push(c),
        }
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Returns a line up to the value, if it is a header field that identifies a user.
fn without_secret(line: &str) -> &str {
    let name = line.split_once(':').map(|(name, _)| name);
    let is_secret = name.is_some_and(|name| {
        let name = name.to_ascii_lowercase();
        SECRETS.contains(&name.as_str()) || name.ends_with("-key") || name.ends_with("-token")
    });
    if is_secret {
        line.split_inclusive(':').next().unwrap_or(line)
    } else {
        line
    }
}

/// Appends a hex dump of sixteen bytes per line, as in Wireshark.
fn hex(text: &mut String, bytes: &[u8], offset: &mut u64, is_indented: bool) {
    for line in bytes.chunks(16) {
        let (mut digits, mut letters) = (String::new(), String::new());
        for (at, &byte) in line.iter().enumerate() {
            let gap = if at == 8 { "  " } else { " " };
            digits.push_str(if at == 0 { "" } else { gap });
            write!(digits, "{byte:02x}").expect("memory takes all");
            letters.push_str(if at == 8 { " " } else { "" });
            letters.push(if (0x20..0x7f).contains(&byte) {
                char::from(byte)
            } else {
                '.'
            });
        }
        let indent = if is_indented { "    " } else { "" };
        writeln!(text, "{indent}{offset:08x}  {digits:48}  {letters}").expect("memory takes all");
        *offset += line.len() as u64;
    }
}

/// Returns a ladder for each exchange: the packets between client and server, with the
/// waits between them.
pub(crate) fn ladders(stream: &Stream, style: &Style) -> String {
    let mut text = String::new();
    let shown = if style.length == Length::Full {
        usize::MAX
    } else {
        LADDERS
    };
    for exchange in stream.exchanges.iter().take(shown) {
        ladder(&mut text, stream, exchange, style.width.clamp(60, 120));
    }
    let hidden = stream.exchanges.len().saturating_sub(shown);
    if hidden > 0 {
        let more = quantity::counted(hidden as u64, "more exchange", "more exchanges");
        writeln!(text, "\n{more}; --verbose shows all.").expect("memory takes all");
    }
    text
}

fn ladder(text: &mut String, stream: &Stream, exchange: &Exchange, width: usize) {
    let latency = quantity::duration(nanos(exchange.begin, exchange.end));
    let request = exchange.request.clone().unwrap_or_default();
    let request = super::escape::escape(&request).into_owned();
    writeln!(
        text,
        "\nExchange {}: {request} · {} · {latency}\n",
        exchange.id.ordinal, exchange.outcome
    )
    .expect("memory takes all");
    let arrow = width.saturating_sub(MARGIN + 2).min(72);
    let (left, right) = ("client", "server");
    let gap = arrow.saturating_sub(left.len() + right.len() - 2);
    writeln!(
        text,
        "{:>10} {:>10}   {left}{:gap$}{right}",
        "at", "packet", ""
    )
    .expect("memory takes all");
    let guilty = guilty(exchange);
    let mut waits = exchange.waits.iter().enumerate().peekable();
    let is_within = |s: &&Segment| (exchange.begin..=exchange.end).contains(&s.at);
    let packets: Vec<&Segment> = stream.segments.iter().filter(is_within).collect();
    let left_out = packets.len().saturating_sub(PACKETS);
    for (at, segment) in packets.iter().enumerate() {
        while let Some((index, wait)) = waits.next_if(|(_, wait)| wait.end <= segment.at) {
            gap_line(text, exchange, wait, Some(index) == guilty);
        }
        // If there are too many packets, those in the middle are left out.
        match at {
            at if left_out > 0 && at == PACKETS / 2 => {
                let dots = quantity::counted(left_out as u64, "packet", "packets");
                writeln!(text, "{:>21}   ┊ … {dots} …", "").expect("memory takes all");
            }
            at if left_out > 0 && (PACKETS / 2..PACKETS / 2 + left_out).contains(&at) => {}
            _ => rung(text, stream, exchange, segment, arrow),
        }
    }
    for (index, wait) in waits {
        gap_line(text, exchange, wait, Some(index) == guilty);
    }
}

fn gap_line(text: &mut String, exchange: &Exchange, wait: &Wait, is_guilty: bool) {
    let took = wait.duration().as_secs_f64();
    if !is_guilty && took < WORTH_A_LINE * exchange.latency().as_secs_f64() {
        return;
    }
    let mark = if is_guilty { "✗" } else { "┊" };
    let took = quantity::duration(nanos(wait.start, wait.end));
    let (owner, what) = (words::owner(wait.owner), words::wait(wait.kind));
    writeln!(text, "{:>21}   {mark} {took} {owner}: {what}", "").expect("memory takes all");
}

/// Appends the line of one packet: `│── 82 bytes ──────▶│`.
fn rung(text: &mut String, stream: &Stream, exchange: &Exchange, segment: &Segment, arrow: usize) {
    let label = format!(" {} ", label(segment));
    let line = "─".repeat(arrow.saturating_sub(label.chars().count() + 3));
    let drawn = if segment.direction == stream.up {
        format!("│──{label}{line}▶│")
    } else {
        format!("│◀{line}{label}──│")
    };
    let at = quantity::duration(nanos(exchange.begin, segment.at));
    writeln!(text, "{at:>10} {:>10}   {drawn}", segment.number).expect("memory takes all");
    let said = stream.comments.get(&segment.number);
    for line in said.into_iter().flatten().flat_map(|said| said.lines()) {
        let line = super::escape::escape(line);
        writeln!(text, "{:>21}   ┊ # {line}", "").expect("memory takes all");
    }
}

fn label(segment: &Segment) -> String {
    const NAMES: [(TcpFlags, &str); 4] = [
        (TcpFlags::SYN, "SYN"),
        (TcpFlags::FIN, "FIN"),
        (TcpFlags::RST, "RST"),
        (TcpFlags::ACK, "ACK"),
    ];
    let has = |flag| segment.flags.contains(flag);
    let mut parts: Vec<String> = NAMES
        .iter()
        // An ACK flag on a segment with data is not mentioned.
        .filter(|&&(flag, _)| has(flag) && (flag != TcpFlags::ACK || segment.payload_len == 0))
        .map(|&(_, name)| name.to_owned())
        .collect();
    if segment.payload_len > 0 {
        parts.push(quantity::counted(
            segment.payload_len.into(),
            "byte",
            "bytes",
        ));
    }
    parts.join(" ")
}

/// Returns the index of the longest wait that is neither propagation nor transmission. If there is
/// no such wait, the longest one is chosen.
fn guilty(exchange: &Exchange) -> Option<usize> {
    let is_cost = |wait: &Wait| {
        !matches!(
            wait.kind,
            WaitKind::RoundTrip | WaitKind::RequestTransfer | WaitKind::ResponseTransfer
        )
    };
    let waits = exchange.waits.iter().enumerate().rev();
    let longest = waits.max_by_key(|(_, wait)| (is_cost(wait), wait.duration()));
    longest.map(|(index, _)| index)
}

/// The figure that a plot shows over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plot {
    RoundTrip,
    InFlight,
    Window,
}

/// Returns the plot of a figure of the connection over time.
pub(crate) fn over_time(stream: &Stream, what: Plot, style: &Style) -> String {
    let begin = stream.segments.first().map(|s| s.at).unwrap_or_default();
    let since = |at: Timestamp| nanos(begin, at);
    let [client, server] = &stream.samples;
    let points = |way: &WaySamples| -> Vec<(u64, u64)> {
        let of = |list: &[(Timestamp, u64)]| {
            list.iter().map(|&(at, value)| (since(at), value)).collect()
        };
        match what {
            Plot::InFlight => of(&way.in_flight),
            Plot::Window => of(&way.windows),
            Plot::RoundTrip => {
                let trips = way.round_trips.iter();
                let nanos =
                    |d: std::time::Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
                trips.map(|&(at, took)| (since(at), nanos(took))).collect()
            }
        }
    };
    let (title, names, figure): (_, _, fn(u64) -> String) = match what {
        Plot::RoundTrip => (
            "Round trips from the capture point to the receiver and back",
            ["of the client's segments", "of the server's segments"],
            quantity::duration,
        ),
        Plot::InFlight => (
            "Bytes in flight, as seen at the capture point",
            ["sent by the client", "sent by the server"],
            quantity::bytes,
        ),
        Plot::Window => (
            "Receive windows advertised",
            ["by the client", "by the server"],
            quantity::bytes,
        ),
    };
    let [of_client, of_server] = names;
    let series = [
        Series {
            name: of_client,
            mark: 'o',
            points: points(client),
        },
        Series {
            name: of_server,
            mark: 'x',
            points: points(server),
        },
    ];
    format!(
        "\n{title}\n{}",
        plot(&series, style.width.clamp(40, 120), figure)
    )
}

fn nanos(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.since(from).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_left_out_of_a_text() {
        let mut text = String::new();
        plain(
            &mut text,
            b"GET / HTTP/1.1\r\nHost: h\r\nCOOKIE: sid=1\r\nX-Api-Key:2\r\n\r\nbody: 3",
        );
        assert_eq!(
            text,
            "GET / HTTP/1.1\nHost: h\nCOOKIE:\nX-Api-Key:\n\nbody: 3\n"
        );
    }
}
