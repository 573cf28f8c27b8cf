//! Recognition of a capture file that continues another one.
//!
//! Capture programs that regularly start a new file create pieces of one capture. Connections that
//! are open at the end of one piece continue in the next. A file that was recorded on another day
//! or elsewhere is not a continuation, although its packets are later too. If it counted as the
//! same capture, two connections that happen to have the same ports would be mistaken for one.

use core::time::Duration;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use crate::observed::flow::{self, Direction, FlowKey};
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::time::Timestamp;

/// Maximum number of flows remembered per file. Only flows near the end of the file matter. If more
/// than this many are active, all are forgotten, and each flow that is still active is seen again
/// before the end.
const MAX_FLOWS: usize = 1 << 16;
/// Maximum difference between a segment's sequence number and the end of the previous segment for
/// the segment to continue the flow: the size of a window. RFC 7323 §2.3 allows larger windows, but
/// no sender fills them. An unrelated flow is within this distance in one of 1,000 cases.
const MAX_WINDOW: u32 = 1 << 21;
/// Maximum pause between two files with similar names for them to count as pieces of one capture.
/// No connection needs to continue between them: at night, for example, perhaps no connection is
/// open.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Maximum time by which timestamps may be out of order at the boundary between two files. They can
/// be, because several processors take timestamps.
const MAX_DISORDER: Duration = Duration::from_millis(1);

/// The next sequence number of each flow of a capture file, per direction.
#[derive(Debug)]
pub struct OpenFlows {
    next: HashMap<(FlowKey, bool), u32, SeedableRandomState>,
}

impl OpenFlows {
    /// Creates the flows of one file; `hash_seed` does not affect the answers.
    pub fn new(hash_seed: u64) -> Self {
        Self {
            next: HashMap::with_hasher(flow::hasher(hash_seed)),
        }
    }

    /// Processes the file's next segment.
    pub fn observe_segment(&mut self, segment: &Segment) {
        let key = (segment.flow, segment.direction == Direction::Forward);
        if segment.flags.contains(TcpFlags::RST) {
            self.next.remove(&key);
        } else if self.next.len() < MAX_FLOWS || self.next.contains_key(&key) {
            let end = segment.seq.wrapping_add(segment.sequence_len());
            self.next.insert(key, end);
        } else {
            // Flows that are still active are seen again.
            self.next.clear();
        }
    }

    /// Returns true if a segment of another file continues a flow of this one.
    pub fn continue_with(&self, segment: &Segment) -> bool {
        let key = (segment.flow, segment.direction == Direction::Forward);
        let is_new = segment.flags.contains(TcpFlags::SYN);
        let next = self.next.get(&key).filter(|_| !is_new);
        next.is_some_and(|next| {
            let ahead = segment.seq.wrapping_sub(*next);
            ahead.min(ahead.wrapping_neg()) < MAX_WINDOW
        })
    }
}

/// Returns true if a file that begins at `begin` can continue one that ends at `end`.
pub fn may_follow(end: Timestamp, begin: Timestamp) -> bool {
    end <= begin + MAX_DISORDER
}

/// Returns true if one program probably created both files as pieces: their names differ only in
/// digits, as in `x.pcap` and `x.pcap1`, or in `x_00002_20260102.pcapng`. The pause between them
/// must not exceed a minute.
pub fn are_named_alike(one: &str, other: &str, pause: Duration) -> bool {
    let without_digits = |path: &str| -> String {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.chars().filter(|c| !c.is_ascii_digit()).collect()
    };
    pause <= MAX_PAUSE && without_digits(one) == without_digits(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::event::PointId;
    use crate::observed::flow::{Endpoint, Transport};
    use crate::observed::segment::{IpFacts, TcpOptions};

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
        let mut flows = OpenFlows::new(7);
        flows.observe_segment(&segment(1000, u32::MAX - 20, TcpFlags::ACK));
        flows.observe_segment(&segment(1001, 5000, TcpFlags::RST));
        let goes_on = |port, seq, flags| flows.continue_with(&segment(port, seq, flags));
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
            assert!(!are_named_alike(one, other, MAX_PAUSE * 2));
        }
        assert!(!are_named_alike("client.pcap", "server.pcap", at_once));
    }
}
