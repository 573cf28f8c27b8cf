//! Recognition of a file that continues where another one ends.
//!
//! Capture programs that start a new file from time to time create pieces of one capture:
//! connections that are open at the end of one piece continue in the next. A file that was recorded
//! on another day, or elsewhere, is not a continuation, although its packets are later too. If it
//! counted as the same capture, a connection that happens to have the same ports would be mistaken
//! for the same connection.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use lagtrace_core::observed::event::Note;
use lagtrace_core::observed::flow::{Direction, FlowKey};
use lagtrace_core::observed::segment::{Segment, TcpFlags};

/// Maximum number of flows remembered per file. Only flows near the end of the file matter, and if
/// more than this many are active, each of them will be seen again before the end.
const MAX_FLOWS: usize = 1 << 16;
/// Maximum difference between a segment's sequence number and the end of the previous segment for
/// the segment to continue the flow: the size of a window (RFC 7323 §2.3 allows more, but no sender
/// fills it). An unrelated flow is within this distance in one of 1000 cases.
const NEAR: u32 = 1 << 21;
/// Maximum pause between two files that count as pieces because of their names, even if no
/// connection continued between them, for example at night.
const PAUSE: Duration = Duration::from_secs(60);
/// Maximum number of files listed in a remark.
const NAMED: usize = 4;

/// The state of a file's flows.
#[derive(Debug, Default)]
pub(super) struct Trail {
    next: HashMap<(FlowKey, bool), u32>,
}

impl Trail {
    /// Processes the file's next segment.
    pub(super) fn take(&mut self, segment: &Segment) {
        let key = (segment.flow, segment.direction == Direction::Forward);
        let is_over = segment.flags.contains(TcpFlags::RST);
        if is_over {
            self.next.remove(&key);
        } else if self.next.len() < MAX_FLOWS || self.next.contains_key(&key) {
            let end = segment.seq.wrapping_add(segment.sequence_len());
            self.next.insert(key, end);
        } else {
            // Flows that are still under way come again.
            self.next.clear();
        }
    }

    /// Returns true if the segment continues a flow of this file.
    pub(super) fn goes_on(&self, segment: &Segment) -> bool {
        let key = (segment.flow, segment.direction == Direction::Forward);
        let is_new = segment.flags.contains(TcpFlags::SYN);
        let next = self.next.get(&key).filter(|_| !is_new);
        next.is_some_and(|next| {
            let ahead = segment.seq.wrapping_sub(*next);
            ahead.min(ahead.wrapping_neg()) < NEAR
        })
    }
}

/// Returns true if the file names look like pieces created by one program: `x.pcap`, `x.pcap1` and
/// `x_00002_20260102.pcapng` differ only in their digits.
pub(super) fn are_named_alike(one: &str, other: &str, pause: Duration) -> bool {
    let stem = |path: &str| -> String {
        let path = Path::new(path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.chars().filter(|c| !c.is_ascii_digit()).collect()
    };
    pause <= PAUSE && stem(one) == stem(other)
}

/// The assumptions made about files whose times do not overlap.
#[derive(Debug, Default)]
pub(super) struct Assumed {
    joined: Vec<String>,
    apart: Vec<String>,
}

impl Assumed {
    /// Records that a file which begins where another one ended was read as a piece of the same
    /// capture, or that it was not.
    pub(super) fn tell(&mut self, name: &str, is_piece: bool) {
        let list = if is_piece {
            &mut self.joined
        } else {
            &mut self.apart
        };
        list.push(name.to_owned());
    }

    /// Returns the notes for the report.
    pub(super) fn notes(&self) -> Vec<Note> {
        let joined = (
            &self.joined,
            "pieces-of-one-capture",
            "read as the continuation of the previous file, because connections continue there or \
             its name says so. Packet numbers continue",
        );
        let apart = (
            &self.apart,
            "separate-captures",
            "read as a separate capture: it begins after another one ended, and no connection \
             continues from there. Parts of one capture contain consecutive packets",
        );
        let told = [joined, apart]
            .into_iter()
            .filter(|(list, ..)| !list.is_empty());
        told.map(|(list, id, text)| Note {
            id: id.to_owned(),
            text: format!("{}: {text}.", names(list)),
        })
        .collect()
    }
}

fn names(list: &[String]) -> String {
    let shown = list.iter().take(NAMED).cloned().collect::<Vec<_>>();
    match list.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use lagtrace_core::observed::event::PointId;
    use lagtrace_core::observed::flow::{Endpoint, Transport};
    use lagtrace_core::observed::segment::{IpFacts, TcpOptions};
    use lagtrace_core::observed::time::Timestamp;

    use super::*;

    fn segment(port: u16, seq: u32, flags: TcpFlags) -> Segment {
        let end = |last, port| Endpoint::new([10, 0, 0, last].into(), port);
        let (flow, direction) = FlowKey::new(Transport::Tcp, end(1, port), end(2, 80));
        Segment {
            at: Timestamp::default(),
            number: 1,
            point: PointId(0),
            flow,
            direction,
            seq,
            ack: 7,
            flags,
            window: 500,
            payload_len: 100,
            options: TcpOptions::default(),
            ip: IpFacts::default(),
        }
    }

    #[test]
    fn a_connection_goes_on_where_its_sequence_does() {
        let mut trail = Trail::default();
        trail.take(&segment(1000, u32::MAX - 20, TcpFlags::ACK));
        trail.take(&segment(1001, 5000, TcpFlags::RST));
        let goes_on = |port, seq, flags| trail.goes_on(&segment(port, seq, flags));
        assert!(goes_on(1000, 79, TcpFlags::ACK));
        assert!(goes_on(1000, u32::MAX - 20, TcpFlags::ACK));
        assert!(!goes_on(1000, 79, TcpFlags::SYN));
        assert!(!goes_on(1000, 1 << 30, TcpFlags::ACK));
        assert!(!goes_on(1001, 5100, TcpFlags::ACK));
        assert!(!goes_on(1002, 79, TcpFlags::ACK));
    }

    #[test]
    fn pieces_are_named_alike() {
        let at_once = Duration::from_secs(1);
        for (one, other) in [
            ("a/x.pcap", "a/x.pcap12"),
            ("x_00001_20260101.pcapng", "x_00002_20260102.pcapng"),
        ] {
            assert!(are_named_alike(one, other, at_once));
            assert!(!are_named_alike(one, other, PAUSE * 2));
        }
        assert!(!are_named_alike("client.pcap", "server.pcap", at_once));
    }
}
