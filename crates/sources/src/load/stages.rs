//! The time of one request split into stages, from the kernel's timestamps, without I/O.

use core::time::Duration;

use lagtrace_core::observed::event::StageTimes;
use lagtrace_core::observed::time::Timestamp;

use crate::stamped::queue::Stage;

/// Maximum difference by which a kernel timestamp may lie outside of the request's own times.
/// Beyond this, the timestamp is discarded. The clocks can differ a little, because they are
/// aligned only once.
const DISAGREEMENT: Duration = Duration::from_micros(200);

/// A request in flight whose kernel timestamps are collected.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Number of the request's last byte in the connection's byte count; `None` until this byte is
    /// passed to the kernel.
    end: Option<u32>,
    device: Option<Timestamp>,
    acknowledged: Option<Timestamp>,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

/// The times of the request that lagtrace itself recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) due: Timestamp,
    pub(super) sent: Timestamp,
    pub(super) ended: Timestamp,
    /// Minimum round-trip time of the connection, from the kernel.
    pub(super) least_trip: Option<Duration>,
}

impl Watched {
    /// Records that the last byte, number `number`, was passed to the kernel.
    pub(super) fn handed_over(&mut self, number: u32) {
        self.end.get_or_insert(number);
    }

    /// Records the time at which byte number `number` of the connection reached `stage`.
    pub(super) fn stamped(&mut self, number: u32, stage: Stage, at: Timestamp) {
        if self.end != Some(number) {
            return;
        }
        match stage {
            Stage::Queue => {}
            // The first transmission counts, not a retransmission.
            Stage::Device => self.device = self.device.or(Some(at)),
            Stage::Acknowledged => self.acknowledged = self.acknowledged.or(Some(at)),
        }
    }

    /// Returns true if no byte of the response was read yet.
    pub(super) fn awaits_first(&self) -> bool {
        self.first.is_none()
    }

    /// Records that bytes of the response were read. They had arrived at `at`.
    pub(super) fn came(&mut self, at: Timestamp) {
        self.first = self.first.or(Some(at));
        self.last = Some(at);
    }

    /// Returns the request's time in each stage; `None` if timestamps are missing or implausible.
    pub(super) fn stages(&self, seen: Seen) -> Option<StageTimes> {
        let (device, first, last) = (self.device?, self.first?, self.last?);
        let is_believed =
            |at: Timestamp| at + DISAGREEMENT >= seen.sent && at <= seen.ended + DISAGREEMENT;
        if ![device, first, last].into_iter().all(is_believed) {
            return None;
        }
        // Timestamps of two clocks can be slightly out of order. Each stage must end where the next
        // one begins.
        let device = device.max(seen.sent).min(seen.ended);
        let first = first.max(device).min(seen.ended);
        let last = last.max(first).min(seen.ended);
        // An ACK that came with the response does not show when the request arrived.
        let own = self.acknowledged.filter(|&at| at < first && at >= device);
        let floor = first.min(own.unwrap_or(first));
        let path = seen.least_trip.unwrap_or_default();
        let path = (device + path).min(floor);
        let acknowledged = own.unwrap_or(path);
        Some(StageTimes {
            waited: seen.sent.since(seen.due),
            queued: device.since(seen.sent),
            path: path.since(device),
            unacknowledged: acknowledged.since(path),
            server: first.since(acknowledged),
            response: last.since(first),
            wake_up: seen.ended.since(last),
            is_acknowledged_apart: own.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tests::{at, ms};

    /// Returns a request that was sent at 10 ms and reached the device at 12 ms. The response
    /// arrived from 60 to 75 ms, and its last byte was read at 76 ms.
    fn watched(acknowledged: Option<u64>) -> Watched {
        let mut watched = Watched::default();
        watched.handed_over(99);
        watched.stamped(98, Stage::Device, at(11));
        watched.stamped(99, Stage::Device, at(12));
        watched.stamped(99, Stage::Device, at(40));
        if let Some(millis) = acknowledged {
            watched.stamped(99, Stage::Acknowledged, at(millis));
        }
        watched.came(at(60));
        watched.came(at(75));
        watched
    }

    fn seen() -> Seen {
        Seen {
            due: at(4),
            sent: at(10),
            ended: at(76),
            least_trip: Some(ms(20)),
        }
    }

    fn all(times: StageTimes) -> [u64; 7] {
        times.each().map(|(_, time)| time.as_millis() as u64)
    }

    #[test]
    fn stages_tile_a_request_from_when_it_was_due_to_its_end() {
        for (acknowledged, want) in [
            (Some(32), [6, 2, 20, 0, 28, 15, 1]),
            // The ACK is later than the minimum round trip: the path was slow, or the ACK was
            // delayed.
            (Some(50), [6, 2, 20, 18, 10, 15, 1]),
            // The ACK came with the response.
            (Some(61), [6, 2, 20, 0, 28, 15, 1]),
            (None, [6, 2, 20, 0, 28, 15, 1]),
        ] {
            let times = watched(acknowledged).stages(seen()).expect("stamps");
            assert_eq!(all(times), want, "{acknowledged:?}");
            let sum: Duration = times.each().iter().map(|(_, time)| *time).sum();
            assert_eq!(sum, ms(72));
        }
    }

    #[test]
    fn a_response_sooner_than_any_round_trip_leaves_none_for_the_server() {
        let mut soon = seen();
        soon.least_trip = Some(ms(500));
        let times = watched(None).stages(soon).expect("stamps");
        assert_eq!(all(times), [6, 2, 48, 0, 0, 15, 1]);
    }

    #[test]
    fn what_is_missing_or_of_another_time_is_not_believed() {
        let mut unsent = watched(None);
        unsent.device = None;
        assert_eq!(unsent.stages(seen()), None);
        let mut early = watched(None);
        early.device = Some(at(5));
        assert_eq!(early.stages(seen()), None);
    }
}
