//! Recognition of a file that goes on where another one ends.
//!
//! Capturing programs that begin a new file now and then leave pieces of one capture: connections
//! that were under way in one go on in the next. A file that was recorded on another day, or
//! elsewhere, does not go on, though its packets are later too; if it counted as the same capture,
//! a connection that happens to have the same ports would be taken for the same connection.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use lagtrace_core::observed::event::Note;
use lagtrace_core::observed::flow::{Direction, FlowKey};
use lagtrace_core::observed::segment::{Segment, TcpFlags};

/// The most flows of a file that are remembered: those of the end are what matters, and more are
/// not under way at a time without being seen again.
const MAX_FLOWS: usize = 1 << 16;
/// The largest distance of a segment's sequence number from the last one's end for the segment to
/// continue the flow: a window's length (RFC 7323 §2.3 allows more, which nobody fills). Of flows
/// that are not the same, one of 1000 is as near.
const NEAR: u32 = 1 << 21;
/// The longest pause between two files that are pieces because they are named alike, even if no
/// connection went on between them, as in the night.
const PAUSE: Duration = Duration::from_secs(60);
/// Maximum number of files named in a remark.
const NAMED: usize = 4;

/// The state of a file's flows.
#[derive(Debug, Default)]
pub(super) struct Trail {
    next: HashMap<(FlowKey, bool), u32>,
}

impl Trail {
    /// Takes in the file's next segment.
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

    /// Returns true if the segment is one of a flow that was under way.
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

/// Returns true if files are named as one program names its pieces: `x.pcap`, `x.pcap1`,
/// `x_00002_20260102.pcapng` differ in their digits only.
pub(super) fn are_named_alike(one: &str, other: &str, pause: Duration) -> bool {
    let stem = |path: &str| -> String {
        let path = Path::new(path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.chars().filter(|c| !c.is_ascii_digit()).collect()
    };
    pause <= PAUSE && stem(one) == stem(other)
}

/// The assumptions about files whose times do not overlap.
#[derive(Debug, Default)]
pub(super) struct Assumed {
    joined: Vec<String>,
    apart: Vec<String>,
}

impl Assumed {
    /// Notes that a file was read as a piece of one capture with one before it, or not, though it
    /// begins where another one ended.
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
            "read as the continuation of the file before: connections go on there, or its name says so. Packets are numbered on",
        );
        let apart = (
            &self.apart,
            "separate-captures",
            "read as a capture of its own: it begins after another one ended, and no connection goes on from there. Pieces of one capture hold the packets that followed each other",
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
