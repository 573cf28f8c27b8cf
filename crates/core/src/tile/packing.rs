//! How a response was put into segments, and how those were acknowledged: what
//! costs nothing and looks odd.

use core::time::Duration;

use super::Trace;
use crate::connection::half::Arrival;
use crate::exchange::{Gathered, Packing, Side};
use crate::mark::{Data, Mark};

/// Segments of a response from which on its packing says anything.
const LEAST_SEGMENTS: usize = 5;
/// Writes of at most this part of a full segment are worth gathering.
const SMALL_PART: u32 = 4;
/// So many first segments of one length show how much the program writes.
const LEAST_WRITES: usize = 2;
/// On a shorter path an acknowledgement may have come before each segment.
const LEAST_TRIP: Duration = Duration::from_millis(1);

/// The response's packing.
pub(super) fn packing(trace: &Trace<'_>) -> Packing {
    if trace.marks.len() < LEAST_SEGMENTS {
        return Packing::default();
    }
    let span = trace.response;
    let own = trace.marks.iter().filter(|mark| mark.by == Side::Server);
    let data = own.filter_map(|mark| Some((mark, mark.data?)));
    let new: Vec<(&Mark, Data)> = data
        .filter(|(_, data)| data.arrival == Arrival::InOrder)
        .filter(|(_, data)| data.span.start < span.end && data.span.end > span.start)
        .collect();
    if new.len() < LEAST_SEGMENTS {
        return Packing::default();
    }
    Packing {
        gathered: gathered(trace, &new),
        stride: stride(trace, &new),
    }
}

fn length(data: &Data) -> u64 {
    data.span.end - data.span.start
}

/// Small writes of one length of which later ones left together, though none
/// had to wait for an acknowledgement: the ends of partial segments are ends
/// of writes.
fn gathered(trace: &Trace<'_>, segments: &[(&Mark, Data)]) -> Option<Gathered> {
    let mss = trace.pipe(Side::Server).mss;
    // The head is a write of its own.
    let body = segments.get(1..)?;
    let (_, first) = body.first()?;
    let write = length(first);
    let alike = body
        .iter()
        .take_while(|(_, data)| length(data) == write)
        .count();
    let is_small = write > 0 && write <= u64::from(mss / SMALL_PART);
    if !is_small || alike < LEAST_WRITES || trace.whole_trip() < LEAST_TRIP {
        return None;
    }
    let begin = first.span.start;
    let is_end_of_write = |data: &Data| !data.is_small || (data.span.end - begin) % write == 0;
    let (_, last) = body.last()?;
    let rest = body.get(..body.len() - 1)?;
    let is_unheld = body
        .iter()
        .take(alike)
        .skip(1)
        .all(|(_, data)| data.acked < data.span.start);
    let writes = (last.span.end - begin).div_ceil(write);
    let left_in = body
        .iter()
        .map(|(_, data)| length(data).div_ceil(u64::from(mss)))
        .sum::<u64>();
    let is_gathered = rest.iter().all(|(_, data)| is_end_of_write(data)) && left_in < writes;
    (is_gathered && is_unheld).then_some(Gathered {
        write,
        writes,
        segments: left_in,
    })
}

/// Segments for which one acknowledgement came, at the median; super-segments
/// count once, for their receiver acknowledges them as one.
fn stride(trace: &Trace<'_>, segments: &[(&Mark, Data)]) -> Option<u32> {
    let acks = trace.marks.iter().filter(|mark| {
        mark.by == Side::Client && mark.data.is_none() && mark.is_news && !mark.reports_hole
    });
    let mut acked = 0;
    let mut strides: Vec<u32> = Vec::new();
    for mark in acks {
        let until = segments.partition_point(|(_, data)| data.span.end <= mark.ack);
        if until > acked {
            strides.push(u32::try_from(until - acked).unwrap_or(u32::MAX));
            acked = until;
        }
    }
    strides.sort_unstable();
    // The last one comes for what is left.
    (strides.len() > 1)
        .then(|| strides.get(strides.len() / 2).copied())
        .flatten()
}
