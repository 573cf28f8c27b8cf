//! Packing of a response into segments, and their acknowledgements: patterns that look odd but cost
//! nothing.

use core::time::Duration;

use super::Trace;
use crate::attribution::packet::Arrival;
use crate::attribution::packet_record::Data;
use crate::exchange::{PackedWrites, Packing, Seldom, Side};

/// Minimum number of segments of a response for its packing to be examined.
const LEAST_SEGMENTS: usize = 5;
/// Maximum size of writes that are worth coalescing, as a fraction of a full segment (one in this
/// many).
const SMALL_PART: u32 = 4;
/// Number of initial segments of equal length that show the size of the program's writes.
const LEAST_WRITES: usize = 2;
/// Minimum round trip of a path: on a shorter path an acknowledgement may have arrived before each
/// segment.
const LEAST_TRIP: Duration = Duration::from_millis(1);

/// Returns the response's packing; `strides` is scratch memory.
pub(super) fn packing(trace: &Trace<'_>, strides: &mut Vec<u32>) -> Seldom<Packing> {
    if trace.packets.len() < LEAST_SEGMENTS || new(trace).nth(LEAST_SEGMENTS - 1).is_none() {
        return Seldom::default();
    }
    let packing = Packing {
        gathered: gathered(trace),
        stride: stride(trace, strides),
    };
    packing.into()
}

/// Iterates over the response's segments that arrived in order.
fn new<'a>(trace: &'a Trace<'_>) -> impl Iterator<Item = &'a Data> {
    let span = trace.response;
    let own = trace
        .packets
        .iter()
        .filter(|packet| packet.by == Side::Server);
    own.filter_map(|packet| packet.data.as_ref())
        .filter(|data| data.arrival == Arrival::InOrder)
        .filter(move |data| data.span.start < span.end && data.span.end > span.start)
}

fn length(data: &Data) -> u64 {
    data.span.end - data.span.start
}

/// Returns small writes of equal length of which later ones left together, although none had to
/// wait for an acknowledgement: the ends of partial segments are the ends of writes.
fn gathered(trace: &Trace<'_>) -> Option<PackedWrites> {
    let mss = trace.pipe(Side::Server).mss;
    // The head is a separate write.
    let write = length(new(trace).nth(1)?);
    let is_small = write > 0 && write <= u64::from(mss / SMALL_PART);
    if !is_small || trace.whole_trip() < LEAST_TRIP {
        return None;
    }
    let body: Vec<&Data> = new(trace).skip(1).collect();
    let first = body.first()?;
    let alike = body.iter().take_while(|data| length(data) == write).count();
    if alike < LEAST_WRITES {
        return None;
    }
    let begin = first.span.start;
    let is_end_of_write =
        |data: &Data| !data.is_small || (data.span.end - begin).is_multiple_of(write);
    let (last, rest) = body.split_last()?;
    let is_unheld = body
        .iter()
        .take(alike)
        .skip(1)
        .all(|data| data.acked < data.span.start);
    let writes = (last.span.end - begin).div_ceil(write);
    let left_in = body
        .iter()
        .map(|data| length(data).div_ceil(u64::from(mss)))
        .sum::<u64>();
    let is_gathered = rest.iter().all(|data| is_end_of_write(data)) && left_in < writes;
    (is_gathered && is_unheld).then_some(PackedWrites {
        write,
        writes,
        segments: left_in,
    })
}

/// Returns the median number of segments per acknowledgement. A super-segment counts once, because
/// its receiver acknowledges it as one.
fn stride(trace: &Trace<'_>, strides: &mut Vec<u32>) -> Option<u32> {
    let acks = trace.packets.iter().filter(|packet| {
        packet.by == Side::Client && packet.data.is_none() && packet.is_news && !packet.reports.hole
    });
    let mut segments = new(trace).peekable();
    strides.clear();
    for packet in acks {
        let mut covered = 0;
        while segments
            .next_if(|data| data.span.end <= packet.ack)
            .is_some()
        {
            covered += 1;
        }
        if covered > 0 {
            strides.push(covered);
        }
    }
    strides.sort_unstable();
    // The last acknowledgement covers the remaining segments, however few.
    (strides.len() > 1)
        .then(|| strides.get(strides.len() / 2).copied())
        .flatten()
}
