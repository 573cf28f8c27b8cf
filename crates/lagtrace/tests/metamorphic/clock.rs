//! Changes of times: of the capture's clock, of its timestamps, of the hosts' timestamp options.

use std::collections::HashMap;

use crate::capture::{Capture, Form};
use crate::draw::Draw;
use crate::packet::Way;

/// A second in nanoseconds.
const SECOND: i64 = 1_000_000_000;
const YEAR: i64 = 31_556_952;
/// The most by which a timestamp strays, in nanoseconds.
const STRAY: i64 = 20_000;

/// Returns the capture at another time: years away, before 1970, or just after it; and a format
/// that can express it.
pub(crate) fn elsewhen(capture: &Capture, draw: &mut Draw) -> (Capture, Form) {
    let first = capture.frames.iter().map(|frame| frame.at).min();
    let nanos = draw.from(0, SECOND - 1);
    // The year 2262 is the last one that nanoseconds reach.
    let (begin, form) = match draw.from(0, 3) {
        0 => (draw.from(1, 1000) * SECOND, Form::PLAIN),
        1 => (draw.from(60, 135) * YEAR * SECOND, Form::PLAIN),
        way => {
            let years = if way == 2 {
                draw.from(-250, -2)
            } else {
                draw.from(140, 280)
            };
            let offset = years * YEAR;
            (
                offset * SECOND,
                Form::Pcapng {
                    resolution: 9,
                    offset,
                },
            )
        }
    };
    let first = first.unwrap_or_default();
    let mut capture = capture.clone();
    for frame in &mut capture.frames {
        // Subtracted first: the two ends of time are further apart than nanoseconds reach.
        frame.at = frame.at - first + begin + nanos;
    }
    (capture, form)
}

/// Returns the capture with each timestamp of one side's packets up to 20 µs off, and the packets
/// in their order.
pub(crate) fn jittered(
    capture: &Capture,
    services: impl Fn(u16) -> bool,
    draw: &mut Draw,
) -> Capture {
    strayed(capture, services, draw, true)
}

/// Returns the capture with timestamps that stray as in [`jittered`], where packets of one
/// direction may pass those of the other.
pub(crate) fn disordered(
    capture: &Capture,
    services: impl Fn(u16) -> bool,
    draw: &mut Draw,
) -> Capture {
    strayed(capture, services, draw, false)
}

fn strayed(
    capture: &Capture,
    services: impl Fn(u16) -> bool,
    draw: &mut Draw,
    keeps_order: bool,
) -> Capture {
    let strays_to_client = draw.from(0, 1) == 0;
    let mut capture = capture.clone();
    let mut last = i64::MIN;
    for frame in &mut capture.frames {
        let from_server = frame
            .packet()
            .is_some_and(|packet| services(packet.ports()[0]));
        let is_straying = from_server == strays_to_client;
        if is_straying {
            frame.at += draw.from(-STRAY, STRAY);
        }
        if is_straying || keeps_order {
            frame.at = frame.at.max(last);
            last = frame.at;
        }
    }
    capture.sort();
    capture
}

/// Returns the capture with TCP timestamps of clocks that are slower by this part.
pub(crate) fn slower(capture: &Capture, rate: f64) -> Capture {
    let mut capture = capture.clone();
    let mut begins: HashMap<Way, u32> = HashMap::new();
    let at = |begin: u32, value: u32| {
        let since = value.wrapping_sub(begin) as i32;
        begin.wrapping_add((f64::from(since) * rate).floor() as i32 as u32)
    };
    for packet in capture.packets_mut() {
        let way = packet.way();
        let Some(tcp) = packet.tcp_mut() else {
            continue;
        };
        let Some([value, echo]) = tcp.timestamps() else {
            continue;
        };
        let begin = *begins.entry(way).or_insert(value);
        // A clock that is echoed before it is seen begins at the echo.
        let echo = match echo {
            0 => 0,
            echo => at(*begins.entry(way.back()).or_insert(echo), echo),
        };
        tcp.set_timestamps([at(begin, value), echo]);
    }
    capture
}
