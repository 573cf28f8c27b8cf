//! Packets captured during the load, which are kept until they are analysed afterwards, because the
//! analysis would disturb the measurement.

use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lagtrace_core::decode::Packet;
use lagtrace_sources::capture::{
    Arrival, CaptureError, LiveCapture, LiveOptions, LiveOutcome, Packets,
};

/// Maximum memory of the packets until they are analysed, in bytes.
const MOST_BYTES: usize = 256 * 1024 * 1024;
/// Maximum bytes of payload in a batch, unless a single payload is longer, and maximum number of
/// packets. One list of all packets would be copied each time it grows, and take up to three times
/// the memory of the packets.
const BATCH_BYTES: usize = 1024 * 1024;
const BATCH_PACKETS: usize = 8_192;
/// The time that the recorder waits for packets in one call.
const LONGEST_CALL: Duration = Duration::from_millis(50);

/// A capture that runs in the background.
pub(super) struct Recorder {
    stop: Arc<AtomicBool>,
    shelf: Arc<Shelf>,
    thread: JoinHandle<LiveOutcome>,
}

/// The state shared by both threads.
#[derive(Debug, Default)]
struct Shelf {
    packets: Mutex<Batches>,
    /// The number of packets that were dropped for lack of memory.
    skipped: AtomicU64,
}

/// Packets in the order of their capture, in batches that can be dropped as they are analysed.
#[derive(Debug, Default)]
pub(super) struct Batches {
    whole: Vec<Packets>,
    last: Packets,
    /// Memory of the whole batches, in bytes.
    memory: usize,
}

impl Batches {
    /// Keeps a packet with its payload; returns false if there is no memory for it.
    fn push(&mut self, packet: &Packet<'static>, payload: &[u8]) -> bool {
        if self.memory + self.last.memory() + payload.len() > MOST_BYTES {
            return false;
        }
        if !self.last.has_room(payload) || self.last.len() == BATCH_PACKETS {
            self.memory += self.last.memory();
            let next = Packets::with_room(BATCH_BYTES.max(payload.len()));
            self.whole.push(std::mem::replace(&mut self.last, next));
        }
        self.last.push(packet, payload);
        true
    }

    /// Returns the batches, the earliest first.
    pub(super) fn into_each(self) -> impl Iterator<Item = Packets> {
        self.whole.into_iter().chain(iter::once(self.last))
    }
}

impl Recorder {
    /// Starts the capture.
    pub(super) fn start(options: &LiveOptions) -> Result<Self, CaptureError> {
        let stop = Arc::new(AtomicBool::new(false));
        let capture = LiveCapture::start(options, Arc::clone(&stop))?;
        let shelf = Arc::new(Shelf::default());
        let keep = Arc::clone(&shelf);
        let thread = thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || fill(capture, &keep))
            .map_err(CaptureError::Thread)?;
        Ok(Self {
            stop,
            shelf,
            thread,
        })
    }

    /// Returns the packets captured since the last call.
    pub(super) fn take(&self) -> Batches {
        let mut packets = self
            .shelf
            .packets
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut packets)
    }

    /// Ends the capture. Returns the remaining packets, the capture's result, and the number of
    /// packets that were dropped for lack of memory.
    pub(super) fn stop(self) -> (Batches, LiveOutcome, u64) {
        self.stop.store(true, Ordering::Relaxed);
        let outcome = self.thread.join().unwrap_or_default();
        let skipped = self.shelf.skipped.load(Ordering::Relaxed);
        let mut packets = self
            .shelf
            .packets
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut packets), outcome, skipped)
    }
}

fn fill(mut capture: LiveCapture, shelf: &Shelf) -> LiveOutcome {
    loop {
        match capture.next_batch(LONGEST_CALL) {
            Arrival::Batch(batch) => {
                let mut packets = shelf.packets.lock().unwrap_or_else(PoisonError::into_inner);
                for (packet, payload) in batch.iter() {
                    if !packets.push(packet, payload) {
                        shelf.skipped.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            Arrival::Quiet => {}
            Arrival::Ended => return capture.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_kept_in_order_until_the_memory_is_full() {
        let mut batches = Batches::default();
        let payloads =
            [0, 1, 1_400, 64 * 1024, BATCH_BYTES, BATCH_BYTES + 1].map(|size| vec![7; size]);
        let mut kept = Vec::new();
        for payload in payloads.iter().cycle().take(10_000) {
            if !batches.push(&Packet::Other, payload) {
                break;
            }
            kept.push(payload.len());
        }
        let batches: Vec<Packets> = batches.into_each().collect();
        let memory: usize = batches.iter().map(Packets::memory).sum();
        assert!((MOST_BYTES - 2 * BATCH_BYTES..=MOST_BYTES + 1024).contains(&memory));
        assert!(batches.len() > 100, "{}", batches.len());
        let lengths = |batch: &Packets| {
            batch
                .iter()
                .map(|(_, payload)| payload.len())
                .collect::<Vec<_>>()
        };
        assert_eq!(batches.iter().flat_map(lengths).collect::<Vec<_>>(), kept);
    }

    #[test]
    fn many_small_packets_are_split_into_batches() {
        let mut batches = Batches::default();
        for _ in 0..3 * BATCH_PACKETS {
            assert!(batches.push(&Packet::Other, b"x"));
        }
        let lengths: Vec<usize> = batches.into_each().map(|batch| batch.len()).collect();
        assert_eq!(lengths, [0, BATCH_PACKETS, BATCH_PACKETS, BATCH_PACKETS]);
    }
}
