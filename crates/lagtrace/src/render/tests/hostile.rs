//! A recorded run in which all texts from peers, program names and files are hostile.

use lagtrace_core::report::Report;
use lagtrace_sources::capture::Packets;
use serde_json::Value;

use super::recorded;

/// Characters that reverse or hide text without being control characters.
pub(super) const UNSEEN: [char; 2] = ['\u{202e}', '\u{200b}'];
/// A hostile text: it would set a terminal's title, clear the screen, begin a line,
/// reverse text and hide characters.
pub(super) const ILL: &str = "\u{1b}]0;owned\u{7}\u{9b}2J\r\n\u{202e}evil\u{200b} x";
/// Texts from outside, by kind of observation and path within it.
const FREE: [(&str, &str); 15] = [
    ("resolution", "name"),
    ("resolution", "failure"),
    ("route", "interface"),
    ("socket", "owner/process/name"),
    ("turn", "program/name"),
    ("counter", "name"),
    ("configuration", "program"),
    ("configuration", "value"),
    ("configuration", "scope"),
    ("configuration", "set_at/file"),
    ("configuration", "doubt"),
    ("firewall", "because"),
    ("timers", "source"),
    ("capture", "name"),
    ("note", "text"),
];
/// The first two lines of each recorded request.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 10.77.0.2:8080\r\n";

/// Returns the report of the faulty server's run with hostile texts in it.
pub(super) fn report() -> Report {
    let mut run = recorded("faulty");
    let is_note = |line: &Value| line.pointer("/body/note").is_some();
    let notes = recorded("refused").observations.into_iter();
    run.observations.extend(notes.filter(is_note));
    spoil(&mut run.observations);
    let (request, mut packets) = (request(), Packets::default());
    for (packet, payload) in run.packets.iter() {
        let mut payload = payload.to_vec();
        if payload.starts_with(REQUEST) {
            payload[..request.len()].copy_from_slice(&request);
        }
        packets.push(packet, &payload);
    }
    run.packets = packets;
    run.report()
}

/// Returns a request line as long as [`REQUEST`], with all characters of [`ILL`] that a request
/// line can contain. With a space or a control character below 0x80, it would not be parsed as a
/// request.
fn request() -> Vec<u8> {
    let rest = REQUEST.len() - "GET / HTTP/1.1\r\n".len();
    let ill = ILL.chars().filter(|c| *c > ' ');
    let mut path = ill.collect::<String>().into_bytes();
    path.resize(rest, b'.');
    [b"GET /", path.as_slice(), b" HTTP/1.1\r\n"].concat()
}

/// Replaces all texts from outside by [`ILL`].
fn spoil(observations: &mut [Value]) {
    for (kind, text) in FREE {
        let place = format!("/body/{kind}/{text}");
        let of_kind = observations.iter_mut();
        let texts: Vec<&mut Value> = of_kind
            .filter_map(|line| line.pointer_mut(&place))
            .collect();
        assert!(!texts.is_empty(), "no run has {place}");
        texts.into_iter().for_each(|text| *text = ILL.into());
    }
    for said in ["subject", "started"] {
        observations[0][said] = ILL.into();
    }
}
