//! Changes of times: of the capture's clock, of its timestamps, and of the hosts' TCP timestamps.

use std::collections::HashMap;

use crate::capture::{Capture, Form};
use crate::draw::Draw;
use crate::packet::Way;

/// A second in nanoseconds.
const SECOND: i64 = 1_000_000_000;
const YEAR: i64 = 31_556_952;
/// Maximum deviation of a timestamp, in nanoseconds.
const STRAY: i64 = 20_000;

/// Returns the capture moved to another time: years later or earlier, before 1970, or just after
/// it. Also returns a format that can express this time.
pub(crate) fn elsewhen(capture: &Capture, draw: &mut Draw) -> (Capture, Form) {
    let first = capture.frames.iter().map(|frame| frame.at).min();
    let nanos = draw.from(0, SECOND - 1);
    // 64-bit nanoseconds since 1970 end in 2262.
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
        // The subtraction comes first, because the sum of both times could exceed 64 bits.
        frame.at = frame.at - first + begin + nanos;
    }
    (capture, form)
}

/// Returns the capture with the timestamps of one direction changed by up to 20 µs. The order of
/// packets is kept.
pub(crate) fn jittered(
    capture: &Capture,
    services: impl Fn(u16) -> bool,
    draw: &mut Draw,
) -> Capture {
    strayed(capture, services, draw, true)
}

/// Returns the capture with timestamps changed as in [`jittered`], but packets of one direction may
/// overtake those of the other.
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

/// Returns the capture with TCP timestamps whose clock rate is multiplied by `rate`.
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
        // If a clock is echoed before its own first timestamp, it begins at the echoed value.
        let echo = match echo {
            0 => 0,
            echo => at(*begins.entry(way.back()).or_insert(echo), echo),
        };
        tcp.set_timestamps([at(begin, value), echo]);
    }
    capture
}
